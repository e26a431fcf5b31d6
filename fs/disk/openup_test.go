package disk_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// modes compares the modes of directories.
func (b *bench) modes(want map[string]os.FileMode) {
	b.t.Helper()
	for path, mode := range want {
		if info, err := os.Lstat(b.path(path)); err != nil || info.Mode().Perm() != mode {
			b.t.Errorf("%q: %v, %v; want %v", path, info.Mode(), err, mode)
		}
	}
}

// Apply creates, changes and removes files in a directory of ours whatever the directory's
// mode, and puts the mode back.
func TestC053ReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	for _, mode := range []os.FileMode{0o555, 0o500, 0o400, 0o100, 0} {
		t.Run(mode.String(), func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				for _, path := range []string{"ro/r", "ro/gone", "ro/dir/x", "ro/was/dir", "ro/left"} {
					b.write(path, "1")
				}
				quiet(b)
				b.must(os.Chmod(b.path("ro/dir"), mode))
				b.must(os.Chmod(b.path("ro/was"), mode))
				b.settle()
				b.must(os.Chmod(b.path("ro"), mode))
				b.settle()
				b.apply(b.file("/workspace/ro/n", "new", 0o644), b.file("/workspace/ro/r", "changed", 0o444), remove("/workspace/ro/gone"),
					link("/workspace/ro/l", "r"), folder("/workspace/ro/d", 0o555), b.file("/workspace/ro/d/deep", "deep", 0o400),
					b.file("/workspace/ro/was", "a file now", 0o600), b.file("/workspace/ro/dir/x", "2", 0o644), b.file("/workspace/ro/dir/y", "3", 0o644))
				rev := b.rev()
				b.modes(map[string]os.FileMode{"ro": mode})
				b.settle()
				if now := b.rev(); now != rev {
					t.Errorf("revision %d became %d: what was opened up was taken for news", rev, now)
				}
				b.must(os.Chmod(b.path("ro"), 0o755))
				b.modes(map[string]os.FileMode{"ro/dir": mode, "ro/d": 0o555})
				b.must(os.Chmod(b.path("ro/dir"), 0o755))
				b.must(os.Chmod(b.path("ro/d"), 0o755))
				b.settle()
				b.want(map[string]string{
					"ro": "dir 0755", "ro/n": "file 0644 new", "ro/r": "file 0444 changed", "ro/l": "link r", "ro/d": "dir 0755", "ro/left": "file 0644 1",
					"ro/d/deep": "file 0400 deep", "ro/was": "file 0600 a file now", "ro/dir": "dir 0755", "ro/dir/x": "file 0644 2", "ro/dir/y": "file 0644 3",
				})
			})
		})
	}
}

// The mode of a directory that keeps us out can be changed, and what is in it removed.
func TestC053ShutDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("a/f", "1")
		b.write("b/c/f", "1")
		b.settle()
		b.must(os.Chmod(b.path("a"), 0))
		b.must(os.Chmod(b.path("b/c"), 0))
		b.must(os.Chmod(b.path("b"), 0o500))
		b.settle()
		b.apply(folder("/workspace/a", 0o755), remove("/workspace/b/c"))
		b.modes(map[string]os.FileMode{"a": 0o755, "b": 0o500})
		b.want(map[string]string{"a": "dir 0755", "a/f": "file 0644 1", "b": "dir 0500"})
		// The workspace's directory itself.
		b.must(os.Chmod(b.dir, 0o555))
		b.settle()
		b.apply(b.file("/workspace/n", "new", 0o644), remove("/workspace/b"))
		b.modes(map[string]os.FileMode{"": 0o555})
		b.want(map[string]string{"a": "dir 0755", "a/f": "file 0644 1", "n": "file 0644 new"})
		b.must(os.Chmod(b.dir, 0o755)) // for the test's end
	})
}

// When the process dies while a directory is opened up, the next start puts its mode back,
// and does not take it for a command's.
func TestC053OpenedUpAndKilled(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("ro/r", "1")
		b.must(os.Chmod(b.path("ro"), 0o555))
		b.settle()
		died := errors.New("the process dies here")
		tries := 0
		b.ws.Hook(func(op, path string) error {
			if op == "clear" {
				tries++
			}
			if tries == 2 {
				panic(died)
			}
			return nil
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the directory was never opened up")
				}
			}()
			_, _ = b.ws.Apply(t.Context(), seq([]tree.Entry{remove("/workspace/ro/r")}), tree.SkipSame, nil)
		}()
		b.modes(map[string]os.FileMode{"ro": 0o755})
		b.ws.Hook(nil)
		rev := b.rev()
		b.reopen()
		b.modes(map[string]os.FileMode{"ro": 0o555})
		b.want(map[string]string{"ro": "dir 0555"})
		b.told(rev)
	})
}

// A directory that was opened up to be removed, and could not be, has its mode again.
func TestC053NotRemoved(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("d/a", "1")
		b.write("d/b", "1")
		b.must(os.Chmod(b.path("d"), 0o500))
		b.settle()
		b.ws.Hook(func(op, path string) error {
			if op == "clear" && path == "d/b" {
				return unix.EBUSY
			}
			return nil
		})
		b.push(remove("/workspace/d"))
		b.modes(map[string]os.FileMode{"d": 0o500})
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{})
	})
}

// L1: a file that does not fit on the disk holds up nothing but itself, and is tried again by
// every call.
func TestL1OneFileDoesNotFit(t *testing.T) {
	for _, reason := range []error{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EFBIG} {
		t.Run(reason.Error(), func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.settle()
				tries := 0
				b.ws.Hook(func(op, path string) error {
					if op == "write" && path == "large" {
						tries++
						return reason
					}
					return nil
				})
				b.push(b.file("/workspace/a", "1", 0o644), b.file("/workspace/large", "does not fit", 0o644), b.file("/workspace/z", "2", 0o644))
				b.apply(b.file("/workspace/later", "3", 0o644))
				b.settle()
				if tries != 4 { // an Apply settles before
					t.Errorf("tried %d times", tries)
				}
				for path, text := range map[string]string{"a": "1", "z": "2", "later": "3"} {
					if got, err := os.ReadFile(b.path(path)); err != nil || string(got) != text {
						t.Errorf("%s: %q, %v", path, got, err)
					}
				}
				b.ws.Hook(nil)
				b.settle()
				b.want(map[string]string{"a": "file 0644 1", "large": "file 0644 does not fit", "z": "file 0644 2", "later": "file 0644 3"})
			})
		})
	}
}

// Once the disk was full, files that do not fit are not written as far as there is room.
func TestL1FullDisk(t *testing.T) {
	b := newBench(t, disk.Config{Parallel: 1})
	b.ws.Apart()
	b.settle()
	b.ws.Hook(func(op, path string) error {
		if op == "write" && path == "1" {
			b.ws.Room2(3) // it was larger when the batch was let in
			return unix.ENOSPC
		}
		return nil
	})
	b.push(b.file("/workspace/1", "first", 0o644), b.file("/workspace/2", "large", 0o644), b.file("/workspace/3", "s", 0o644))
	for path, want := range map[string]bool{"1": false, "2": false, "3": true} {
		if _, err := os.Lstat(b.path(path)); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	b.ws.Hook(nil)
	b.ws.Room(-1)
	b.settle()
	b.want(map[string]string{"1": "file 0644 first", "2": "file 0644 large", "3": "file 0644 s"})
}
