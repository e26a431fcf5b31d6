package disk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A path that cannot be brought holds up itself and nothing else: not the rest of its
// batch, not later batches, not what commands do elsewhere. What is
// there is not taken for news, and once it can be brought, it is.
func TestStuck(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("mounted/theirs", "kept")
		b.write("elsewhere", "1")
		b.settle()
		stuck := func(op, path string) error {
			if (op == "clear" || op == "write" || op == "place") && (path == "mounted" || path == "mounted/theirs") {
				return unix.EBUSY
			}
			return nil
		}
		b.ws.Hook(stuck)
		batch := []tree.Entry{b.file("/workspace/mounted", "pushed", 0o600), b.file("/workspace/other", "pushed too", 0o644)}
		done, err := b.ws.Apply(t.Context(), seq(batch), tree.SkipSame, nil)
		if _, ok := errors.AsType[*changes.PendingError](err); !ok || !errors.Is(err, unix.EBUSY) || done.Changed != 2 {
			t.Fatalf("%+v, %v", done, err)
		}
		b.apply(b.file("/workspace/later", "fine", 0o644)) // of another batch
		b.write("elsewhere", "2")
		b.settle()
		rev := b.rev()
		want := map[string]string{"mounted": "file 0600 pushed", "other": "file 0644 pushed too", "later": "file 0644 fine", "elsewhere": "file 0644 2"}
		got := b.inTree()
		for path, what := range want {
			if got[path] != what {
				t.Errorf("the tree has %q as %s, not %q", got[path], path, what)
			}
		}
		for path, what := range map[string]string{"mounted/theirs": "kept", "other": "pushed too", "later": "fine"} {
			if text, err := os.ReadFile(b.path(path)); err != nil || string(text) != what {
				t.Errorf("the directory has %q as %s: %v", text, path, err)
			}
		}
		b.write("mounted/theirs", "changed in between") // the tree has something newer
		b.settle()
		if now := b.rev(); now != rev {
			t.Errorf("revision %d became %d: what is stuck was taken for news", rev, now)
		}
		b.ws.Hook(nil)
		b.reopen()
		b.settle()
		want["mounted.conflict-"], want["mounted.conflict-/theirs"] = "dir 0755", "file 0644 changed in between"
		b.wantAside(want)
	})
}

// refuse lets all that is to be done at some paths fail, as if something were mounted there. Before it
// does, a command does something.
func (b *bench) refuse(command func(), paths ...string) {
	b.ws.Hook(func(op, path string) error {
		if !slices.Contains([]string{"write", "clear", "place"}, op) || !slices.Contains(paths, path) {
			return nil
		}
		if command != nil {
			command()
		}
		return unix.EBUSY
	})
}

// push applies entries some of which cannot be brought.
func (b *bench) push(entries ...tree.Entry) {
	b.t.Helper()
	_, err := b.ws.Apply(context.Background(), seq(entries), tree.SkipSame, nil)
	if _, ok := errors.AsType[*changes.PendingError](err); !ok {
		b.t.Fatalf("pushed: %v", err)
	}
}

// What cannot be brought to a directory stays on its way when that is renamed or removed:
// the directory is made again.
func TestStuckDirectoryGoes(t *testing.T) {
	for _, how := range []string{"renamed", "removed", "replaced"} {
		t.Run(how, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.write("d/old", "before")
				b.write("d/sub/kept", "kept")
				b.settle()
				want := map[string]string{
					"d": "dir 0755", "d/old": "file 0644 pushed", "d/sub": "dir 0755", "d/sub/new": "file 0600 new",
				}
				b.refuse(nil, "d/old", "d/sub/new")
				b.push(b.file("/workspace/d/old", "pushed", 0o644), b.file("/workspace/d/sub/new", "new", 0o600))
				b.refuse(sync.OnceFunc(func() { // the settle looks at it just after that
					switch how {
					case "renamed":
						b.must(os.Rename(b.path("d"), b.path("e")))
						want["e"], want["e/old"], want["e/sub"], want["e/sub/kept"] = "dir 0755", "file 0644 before", "dir 0755", "file 0644 kept"
					case "removed":
						b.must(os.RemoveAll(b.path("d")))
					default:
						b.must(os.RemoveAll(b.path("d")))
						b.must(os.Symlink("nowhere", b.path("d")))
					}
				}), "d/old", "d/sub/new")
				for range 2 {
					b.settle()
					b.must(b.ws.Consistent(t.Context()))
				}
				b.ws.Hook(nil)
				b.settle()
				b.want(want)
			})
		})
	}
}

// A file that cannot be replaced is renamed: under its new name it has its own content, not
// the pushed one's, which is as long.
func TestStuckFileMoves(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("f", "before")
		b.settle()
		b.refuse(nil, "f")
		b.push(b.file("/workspace/f", "pushed", 0o644))
		b.must(os.Rename(b.path("f"), b.path("g")))
		b.settle()
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{"f": "file 0644 pushed", "g": "file 0644 before"})
	})
}

// An entry that changes the mode of what was not brought yet brings the content, too.
func TestStuckMode(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("f", "before")
		for start := time.Now(); time.Since(start) < 2*disk.Granularity; { // until its times tell
			b.settle()
		}
		b.refuse(nil, "f")
		b.push(b.file("/workspace/f", "pushed", 0o644))
		writes := 0
		b.ws.Hook(func(op, path string) error {
			if op == "write" && path == "f" {
				if writes++; writes == 1 { // of the settle before the entry
					return unix.EBUSY
				}
			}
			return nil
		})
		b.apply(b.file("/workspace/f", "pushed", 0o600))
		b.want(map[string]string{"f": "file 0600 pushed"})
		// It is brought, so what a command does with it counts again.
		b.ws.Hook(nil)
		b.write("f", "a command's")
		b.settle()
		b.want(map[string]string{"f": "file 0600 a command's"})
	})
}

// A disk has room for no more files, and batch after batch comes. A path that waits already is not tried
// again with each batch, but once there is room.
func TestStuckWithoutFiles(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		const batches, files = 8, 10
		var tries atomic.Int64
		full := true
		b.ws.Hook(func(op, _ string) error {
			if op != "write" {
				return nil
			}
			if tries.Add(1); full {
				return unix.ENOSPC
			}
			return nil
		})
		b.ws.NoFiles(true)
		want := map[string]string{}
		for i := range batches {
			var list []tree.Entry
			for j := range files {
				name := fmt.Sprintf("f%d-%d", i, j)
				want[name] = "file 0600 x"
				list = append(list, b.file("/workspace/"+name, "x", 0o600))
			}
			b.push(list...)
		}
		b.settle()
		if n := tries.Load(); n > 2*batches*files { // once more where its directory may have been closed to us
			t.Errorf("%d files were tried %d times", batches*files, n)
		}
		if n := b.ws.Journaled(t.Context()); n != batches*files {
			t.Errorf("the journal has %d paths", n)
		}
		tries.Store(0)
		b.settle()
		if n := tries.Load(); n > 0 {
			t.Errorf("tried %d times with nothing new", n)
		}
		// An entry that changes what waits, or takes it away, counts.
		b.push(b.file("/workspace/f0-0", "y", 0o600), remove("/workspace/f0-1"))
		want["f0-0"] = "file 0600 y"
		delete(want, "f0-1")
		if n := b.ws.Journaled(t.Context()); n != len(want) {
			t.Errorf("the journal has %d paths, want %d", n, len(want))
		}
		full = false
		b.ws.NoFiles(false)
		b.settle()
		b.want(want)
	})
}
