package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// closedDir makes a directory without rights.
func closedDir(t *testing.T, at string) {
	t.Helper()
	if err := os.Mkdir(at, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(at, 0o700) }) // so that it can be removed
}

func modeOf(t *testing.T, at string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(at)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// A command that closes its directory again and again hides nothing by that.
func TestSH2DirectoryClosedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	closedDir(t, dir)
	var borrowed rights
	b := newBuilder(&Policy{}, &borrowed)
	b.put(found{real: dir, dir: true}, Write)
	for _, tt := range []struct {
		closed int // how often it is closed before it can be used
		want   error
	}{{0, nil}, {1, nil}, {maxOpenings, nil}, {1 << 20, errMoved}} {
		tries := 0
		err := b.inside(dir, func() error {
			if tries++; tries > tt.closed {
				return nil
			}
			if tries > 1 && modeOf(t, dir) != 0o700 {
				t.Fatalf("mode is %v when tried again", modeOf(t, dir))
			}
			if err := os.Chmod(dir, 0); err != nil {
				t.Fatal(err)
			}
			return unix.EACCES
		})
		if !errors.Is(err, tt.want) || errors.Is(err, os.ErrPermission) {
			t.Errorf("closed %d times: %v", tt.closed, err)
		}
		if len(borrowed.dirs) > 1 {
			t.Fatalf("%d directories are borrowed", len(borrowed.dirs))
		}
	}
	borrowed.giveBack()
	if mode := modeOf(t, dir); mode != 0 {
		t.Errorf("mode is %v in the end", mode)
	}
}

// A layout opens a bounded number of directories, and those that it opened get their
// modes back.
func TestSH2BorrowsAreBounded(t *testing.T) {
	top := t.TempDir()
	var borrowed rights
	dir := func(i int) string { return filepath.Join(top, strconv.Itoa(i)) }
	for i := range maxBorrowed + 1 {
		closedDir(t, dir(i))
		err := borrowed.borrow(dir(i))
		if i < maxBorrowed && err != nil {
			t.Fatal(err)
		}
		if i == maxBorrowed && !errors.Is(err, errForeign) {
			t.Errorf("one more: %v", err)
		}
	}
	borrowed.giveBack()
	for i := range maxBorrowed + 1 {
		if mode := modeOf(t, dir(i)); mode != 0 {
			t.Errorf("mode of %d is %v in the end", i, mode)
		}
	}
	if !borrowing.TryLock() {
		t.Fatal("directories are still borrowed")
	}
	borrowing.Unlock()
}
