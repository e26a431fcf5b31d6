package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
)

const nobody = 65534

// asNobody runs fn without the rights of root, if the test has them.
func asNobody(t *testing.T, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		fn()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its rights
		if _, err := unix.SetfsgidRetGid(nobody); err != nil {
			t.Error(err)
		}
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Error(err)
		}
		fn()
	}()
	<-done
}

func TestWithoutPermission(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "wsd") //nolint:usetesting // nobody may enter what testing makes
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = os.Chmod(dir, 0o700)
				_ = os.RemoveAll(dir)
			})
			open, shut := filepath.Join(dir, "open"), filepath.Join(dir, "shut")
			put(t, open, "a long old content", 0o666)
			put(t, shut, "old", 0o444)
			before, _ := os.Stat(open)
			if err := os.Chmod(dir, 0o555); err != nil {
				t.Fatal(err)
			}
			asNobody(t, func() {
				if err := write(open, "new", atomicfile.Options{}); err != nil {
					t.Errorf("a writable file in a directory that is not: %v", err)
				}
				if err := write(shut, "new", atomicfile.Options{}); !errors.Is(err, unix.EACCES) {
					t.Errorf("a file without write permission: %v", err)
				}
				if err := write(filepath.Join(dir, "more"), "new", atomicfile.Options{}); !errors.Is(err, unix.EACCES) {
					t.Errorf("a new file: %v", err)
				}
			})
			after, _ := os.Stat(open)
			if content(t, open) != "new" || !os.SameFile(before, after) {
				t.Errorf("content %q, in place: %v", content(t, open), os.SameFile(before, after))
			}
			// The directory is open to all, the read-only file still is not.
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			asNobody(t, func() {
				if err := write(shut, "new", atomicfile.Options{}); !errors.Is(err, unix.EACCES) {
					t.Errorf("a file without write permission: %v", err)
				}
				if err := write(open, "newer", atomicfile.Options{}); err != nil {
					t.Errorf("somebody else's writable file: %v", err)
				}
			})
			if now, _ := os.Stat(open); content(t, open) != "newer" {
				t.Errorf("content %q", content(t, open))
			} else if os.Geteuid() == 0 && !os.SameFile(before, now) {
				t.Error("the file changed its owner")
			}
			if got := names(t, dir); got != "open shut" {
				t.Errorf("directory has %s", got)
			}
		})
	}
}
