package disk_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// wantTree compares the tree alone, of which a special file hides some.
func (b *bench) wantTree(want map[string]string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.inTree()); diff != "" {
		b.t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// odd puts what no tree can have in the place of something.
func (b *bench) odd(path string, blank bool) {
	b.t.Helper()
	b.must(os.RemoveAll(b.path(path)))
	if blank {
		b.must(os.Symlink(" ", b.path(path)))
		return
	}
	b.must(unix.Mkfifo(b.path(path), 0o600))
}

// F3: what no tree can have removes nothing from the tree by taking its place. Once it is gone, what is there counts.
func TestF3SpecialInPlaceRemovesNothing(t *testing.T) {
	for name, blank := range map[string]bool{"pipe": false, "blank link": true} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.write("f", "of f")
				b.write("g", "of g")
				b.write("d/e/f", "1")
				b.write("d/g", "1")
				b.write("up/f", "of up/f")
				b.must(os.Symlink("to", b.path("l")))
				b.settle()
				had := b.inTree()
				for _, path := range []string{"f", "g", "l", "up/f"} {
					b.odd(path, blank)
					had[path] = map[bool]string{true: "link to", false: "file 0644 (gone)"}[path == "l"]
				}
				b.must(os.Rename(b.path("d"), b.path("d2")))
				b.odd("d", blank)
				had["d2"], had["d2/e"], had["d2/e/f"], had["d2/g"] = "dir 0755", "dir 0755", "file 0644 1", "file 0644 1"
				for range 2 {
					b.settle()
					b.wantTree(had)
					if got := b.ws.Skipped(nil); len(got) != 1 || got[0].Count != 5 {
						t.Errorf("left out: %+v", got)
					}
					b.check()
				}
				b.reopen()
				b.wantTree(had)

				// A directory takes it along.
				b.must(os.Rename(b.path("up"), b.path("upper")))
				delete(had, "up")
				delete(had, "up/f")
				had["upper"], had["upper/f"] = "dir 0755", "file 0644 (gone)"
				b.settle()
				b.wantTree(had)

				b.must(os.Remove(b.path("f")))
				b.must(os.Remove(b.path("g")))
				b.write("g", "other")
				b.must(os.Remove(b.path("l")))
				b.must(os.Remove(b.path("upper/f")))
				b.must(os.Remove(b.path("d")))
				b.write("d2/g", "2")
				b.must(os.Remove(b.path("d2/e/f")))
				b.must(os.Rename(b.path("d2"), b.path("d")))
				b.settle()
				b.want(map[string]string{"g": "file 0644 other", "d": "dir 0755", "d/e": "dir 0755", "d/g": "file 0644 2", "upper": "dir 0755"})
				b.wantSkipped()
			})
		})
	}
}

// F3: no entry takes the place of a pipe. It comes once that is gone.
func TestF3EntryWaitsForSpecial(t *testing.T) {
	const waits = "a pipe, socket or device is in its place"
	both(t, func(t *testing.T, b *bench) {
		for _, path := range []string{"f", "l", "d/f", "meta", "gone", "gone2/f"} {
			b.write(path, "1")
		}
		quiet(b)
		for _, path := range []string{"f", "l", "d", "new", "newdir", "newlink", "meta", "gone", "gone2/f"} {
			b.odd(path, false)
		}
		batch := []tree.Entry{
			b.file("/workspace/f", "2", 0o644), link("/workspace/l", "to"), b.file("/workspace/d/f", "2", 0o644), b.file("/workspace/d/n", "2", 0o644),
			b.file("/workspace/new", "2", 0o644), b.file("/workspace/newdir/f", "2", 0o644), link("/workspace/newlink", "to"),
			b.file("/workspace/meta", "1", 0o755), remove("/workspace/gone"), remove("/workspace/gone2"), b.file("/workspace/other", "2", 0o644),
		}
		done, err := b.ws.Apply(t.Context(), seq(batch), tree.SkipSame|changes.AnyRoom, nil)
		if pending, ok := errors.AsType[*changes.PendingError](err); !ok || !pending.Partly {
			t.Errorf("%+v, %v", done, err)
		}
		for range 2 {
			got := onDisk(t, b.dir)
			want := map[string]string{"other": "file 0644 2", "gone2": "dir 0755"}
			for _, path := range []string{"f", "l", "d", "new", "newdir", "newlink", "meta", "gone", "gone2/f"} {
				want[path] = "special"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("directory (-want +got):\n%s", diff)
			}
			b.wantSkipped("unwritten d/f "+waits, "unwritten d/n "+waits, "unwritten f "+waits, "unwritten l "+waits, "unwritten meta "+waits, "unwritten new "+waits,
				"unwritten newdir/f "+waits, "unwritten newlink "+waits, "special d", "special gone", "special gone2/f", "special newdir")
			b.must(b.ws.Consistent(context.Background()))
			b.settle()
		}
		for _, path := range []string{"f", "l", "d", "new", "newdir", "newlink", "meta", "gone", "gone2/f"} {
			b.must(os.Remove(b.path(path)))
		}
		b.settle()
		b.settle()
		got := onDisk(t, b.dir)
		for path, want := range map[string]string{
			"f": "file 0644 2", "l": "link to", "d/f": "file 0644 2", "d/n": "file 0644 2", "new": "file 0644 2",
			"newdir/f": "file 0644 2", "newlink": "link to", "gone": "", "other": "file 0644 2",
		} {
			if got[path] != want {
				t.Errorf("%s is %q, want %q", path, got[path], want)
			}
		}
		b.wantSkipped()
		b.same()
	})
}

// F3: a pipe that comes to the place of a file while an entry for that arrives stays there.
func TestF3SpecialThatComesMeanwhile(t *testing.T) {
	for _, there := range []bool{true, false} {
		b := newBench(t, disk.Config{Watch: true})
		if there {
			b.write("f", "old")
		}
		quiet(b)
		b.ws.Hook(func(op, path string) error {
			if op != "place" {
				return nil
			}
			_ = os.Remove(b.path(path))
			return unix.Mkfifo(b.path(path), 0o600)
		})
		_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{b.file("/workspace/f", "new", 0o644)}), tree.SkipSame|changes.AnyRoom, nil)
		if _, ok := errors.AsType[*changes.PendingError](err); !ok {
			t.Errorf("%v", err)
		}
		b.ws.Hook(nil)
		if diff := cmp.Diff(map[string]string{"f": "special"}, onDisk(t, b.dir)); diff != "" {
			t.Errorf("directory (-want +got):\n%s", diff)
		}
		b.must(os.Remove(b.path("f")))
		b.settle()
		b.want(map[string]string{"f": "file 0644 new"})
	}
}
