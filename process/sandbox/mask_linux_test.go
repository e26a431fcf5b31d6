package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func mustHold(t *testing.T, at string) *mask {
	t.Helper()
	m, err := hold(at, new(rights))
	if err != nil || m == nil {
		t.Fatalf("hold: %v, %v", m, err)
	}
	return m
}

func TestMaskLivesAsLongAsItIsHeld(t *testing.T) {
	at := workspace(t) + "/.git"
	first, second := mustHold(t, at), mustHold(t, at)
	info, err := os.Lstat(at)
	if err != nil || !isMask(info) {
		t.Fatalf("mask is %v, %v", info, err)
	}
	first.release()
	if !exists(at) {
		t.Error("removed while it is held")
	}
	second.release()
	if exists(at) {
		t.Error("left behind")
	}
}

func TestMaskIsTakenOver(t *testing.T) {
	at := workspace(t) + "/.git"
	mustHold(t, at).close() // as if the server were killed
	if !exists(at) {
		t.Fatal("not left behind")
	}
	mustHold(t, at).release()
	if exists(at) {
		t.Error("left behind")
	}
}

func TestMaskTakesNothingOfOthers(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "dir/", "file", "link -> dir", "locked/")
	for _, name := range []string{"dir", "file", "link", "missing/x"} {
		if m, err := hold(filepath.Join(dir, name), new(rights)); !errors.Is(err, errMoved) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if m, err := hold(dir+"/link/x", new(rights)); !errors.Is(err, errMoved) {
		t.Errorf("through a link: %v, %v", m, err)
	}
	m := mustHold(t, dir+"/mask")
	if err := os.Chmod(dir+"/mask", 0o755); err != nil { // as its owner may
		t.Fatal(err)
	}
	fill(t, dir, "mask/kept")
	m.release()
	if !exists(dir + "/mask/kept") {
		t.Error("what somebody put there is gone")
	}
}

func TestMaskThatWasReplaced(t *testing.T) {
	dir := workspace(t)
	m := mustHold(t, dir+"/mask")
	if err := unix.Rmdir(dir + "/mask"); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, "mask/")
	m.release()
	if !exists(dir + "/mask") {
		t.Error("removed the directory of somebody else")
	}
}

func TestMaskWhereNothingCanBeMade(t *testing.T) {
	if m, err := hold("/proc/.git", new(rights)); m != nil || err != nil && !errors.Is(err, errMoved) {
		t.Errorf("hold: %v, %v", m, err)
	}
}

// Many sandboxes at once hold and release one mask: whoever holds it finds it there.
func TestMaskUnderContention(t *testing.T) {
	at := workspace(t) + "/.git"
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				m, err := hold(at, new(rights))
				if err != nil || m == nil {
					t.Errorf("hold: %v, %v", m, err)
					return
				}
				if !m.inPlace() {
					t.Error("held, and not there")
				}
				m.release()
			}
		})
	}
	wg.Wait()
	if exists(at) {
		t.Error("left behind")
	}
}

func TestHoldMasksLeavesNothingOnFailure(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "real/")
	l := &layout{Places: []place{{Path: dir + "/a", Mask: true}, {Path: dir + "/real", Mask: true}}}
	if _, err := holdMasks(l, new(rights)); !errors.Is(err, errMoved) {
		t.Fatal(err)
	}
	if exists(dir + "/a") {
		t.Error("left behind")
	}
}

// A mask that a pattern matches is held as one: it may go with the sandbox that made it.
func TestMaskThatAPatternMatches(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/a/")
	m := mustHold(t, dir+"/w/a/x.env")
	defer m.release()
	_, places, err := lay(t, dir, "ro /", "rw w", "-- w/a/x.env", "glob w/**/*.env")
	if err != nil || !slices.Contains(places, "mask w/a/x.env/") || slices.Contains(places, "-- w/a/x.env/") {
		t.Errorf("%q, %v", places, err)
	}
}
