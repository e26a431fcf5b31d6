package disk_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// touches are what a command does with a file without changing it.
var touches = map[string]func(b *bench, path string){
	"times": func(b *bench, path string) {
		b.must(os.Chtimes(b.path(path), time.Time{}, time.Unix(1_800_000_000, 0)))
	},
	"change": func(b *bench, path string) { b.must(os.Chmod(b.path(path), 0o644)) },
	"copied": func(b *bench, path string) {
		data, err := os.ReadFile(b.path(path))
		b.must(err)
		b.must(os.WriteFile(b.path("copy"), data, 0o644))
		b.must(os.Rename(b.path("copy"), b.path(path)))
	},
}

// old writes files, and settles them once their times tell whether they change.
func (b *bench) old(files map[string]string) {
	for path, text := range files {
		b.write(path, text)
	}
	for start := time.Now(); time.Since(start) < 2*disk.Granularity; {
		b.settle()
	}
}

// Entries wait to be written. A command gives the files that they replace or remove other times, or
// writes them with the content that they have: neither is news, and the entries are written.
func TestStuckTouched(t *testing.T) {
	for name, touch := range touches {
		for _, restarted := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", restarted"}[restarted], func(t *testing.T) {
				both(t, func(t *testing.T, b *bench) {
					if name == "copied" {
						b.ws.Shrink()
					}
					b.old(map[string]string{"d/1": "1", "d/2": "2", "e/3": "3", "e/f/4": "4"})
					b.refuse(nil, "d/1", "d/2", "e")
					b.push(b.file("/workspace/d/1", "new", 0o644), remove("/workspace/d/2"), remove("/workspace/e"))
					b.settle()
					rev := b.rev()
					for _, path := range []string{"d/1", "d/2", "e/3", "e/f/4"} {
						touch(b, path)
					}
					b.settle()
					if restarted {
						b.reopen()
					}
					b.ws.Hook(nil)
					b.settle()
					b.settle()
					b.want(map[string]string{"d": "dir 0755", "d/1": "file 0644 new"})
					b.wantLost()
					if now := b.rev(); now != rev {
						t.Errorf("revision %d became %d", rev, now)
					}
				})
			})
		}
	}
}

// Files wait to be removed, and the process ended before it had noted what they are. A command gives them other times,
// another owner, or the content that they have: they are removed, and what has changed meanwhile stays.
func TestKilledRemovalTouched(t *testing.T) {
	for name, touch := range touches {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.old(map[string]string{"d/2": "2", "d/5": "5", "e/3": "3", "e/f/4": "4", "e/f/6": "6"})
				b.pend(remove("/workspace/d/2"), remove("/workspace/d/5"), remove("/workspace/e"))
				b.cfg.Unsettled = true
				b.reopen()
				b.refuse(nil, "a", "d/2", "d/5", "e")
				b.settle()
				rev := b.rev()
				for _, path := range []string{"d/2", "e/3", "e/f/4"} {
					touch(b, path)
				}
				b.write("d/5", "edited")
				b.write("e/f/6", "9")
				b.settle()
				b.ws.Hook(nil)
				b.settle()
				b.settle()
				b.want(map[string]string{"d": "dir 0755", "d/5": "file 0644 edited", "e": "dir 0755", "e/f": "dir 0755", "e/f/6": "file 0644 9"})
				b.told(rev, "+d/5", "+e", "+e/f", "+e/f/6")
			})
		})
	}
}

// One that was renamed, and may be the last that has its content, does not go before its new name has that.
func TestKilledRenameTouched(t *testing.T) {
	for name, touch := range touches {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.old(map[string]string{"d/2": "two"})
				b.write("a/b", "1")
				b.settle()
				b.ws.Hook(func(op, path string) error {
					switch {
					case op == "lift", op == "read":
						return unix.EACCES
					case op == "clear" && path == "a":
						return errFull
					}
					return nil
				})
				_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{remove("/workspace/d/2"), known("/workspace/g", "two"), remove("/workspace/a")}), tree.SkipSame, nil)
				if _, ok := errors.AsType[*changes.PendingError](err); !ok {
					t.Fatal(err)
				}
				b.cfg.Unsettled = true
				b.reopen()
				b.refuse(nil, "a", "d/2", "g")
				b.settle()
				touch(b, "d/2")
				b.refuse(nil, "a", "g")
				b.settle()
				b.settle()
				b.ws.Hook(nil)
				b.settle()
				b.settle()
				if text, err := os.ReadFile(b.path("g")); err != nil || string(text) != "two" {
					t.Errorf("%q, %v", text, err)
				}
				b.check()
			})
		})
	}
}

// A newer entry comes to a path where an older one waits to be written: the file there is still what it
// was before both.
func TestStuckTouchedTwice(t *testing.T) {
	for name, touch := range touches {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.old(map[string]string{"d/2": "2"})
				b.write("d/1", "1") // its times do not tell whether it changes
				b.settle()
				b.refuse(nil, "d/1", "d/2")
				b.push(b.file("/workspace/d/1", "new", 0o644), b.file("/workspace/d/2", "new", 0o644))
				b.push(b.file("/workspace/d/1", "newer", 0o644), remove("/workspace/d/2"))
				touch(b, "d/1")
				touch(b, "d/2")
				b.settle()
				b.reopen()
				b.settle()
				b.want(map[string]string{"d": "dir 0755", "d/1": "file 0644 newer"})
				b.wantLost()
			})
		})
	}
}

// A command changes a file that waits to be replaced or removed: that is news, as long as it may be.
func TestStuckChanged(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.old(map[string]string{"d/1": "1", "d/2": "2", "d/3": "3", "d/4": "4"})
		b.refuse(nil, "d/1", "d/2", "d/3", "d/4")
		b.push(b.file("/workspace/d/1", "new", 0o644), remove("/workspace/d/2"), b.file("/workspace/d/3", "new", 0o644), remove("/workspace/d/4"))
		b.write("d/1", "A")
		b.write("d/2", "B")
		b.must(os.Chmod(b.path("d/3"), 0o600))
		b.must(os.Chmod(b.path("d/4"), 0o600))
		b.settle()
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{
			"d": "dir 0755", "d/1": "file 0644 new", "d/2": "file 0644 B", "d/3": "file 0644 new", "d/4": "file 0600 4",
		})
		b.wantLost("d/1 file 0644 A", "d/3 file 0600 3")
	})
}

// That an entry waited tells nothing any more once it was written: what the file was before it is news
// when a command writes it while the next entry waits.
func TestStuckWrittenAnew(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.old(map[string]string{"d/1": "1", "other": "o"})
		b.refuse(nil, "d/1", "other")
		b.push(b.file("/workspace/d/1", "2", 0o644), b.file("/workspace/other", "waits", 0o644))
		b.refuse(nil, "other")
		b.settle()
		b.refuse(nil, "d/1", "other")
		b.push(b.file("/workspace/d/1", "3", 0o644))
		b.write("d/1", "1")
		b.settle()
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{"d": "dir 0755", "d/1": "file 0644 3", "other": "file 0644 waits"})
		b.wantLost("d/1 file 0644 1")
	})
}
