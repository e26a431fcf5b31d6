package disk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

var errKilled = errors.New("killed")

// killed applies entries and dies at a moment of the path p, as far as a test can: nothing
// is done after it. The journal has what is left.
func (b *bench) killed(op, path string, entries ...tree.Entry) {
	b.t.Helper()
	b.ws.Hook(func(at, of string) error {
		if at == op && of == path {
			return errKilled
		}
		return nil
	})
	if _, err := b.ws.Apply(context.Background(), seq(entries), tree.SkipSame, nil); !errors.Is(err, errKilled) {
		b.t.Fatalf("the apply that was to die at %s of %s: %v", op, path, err)
	}
	b.ws.Hook(nil)
	b.close()
}

// A file that has arrived and was not noted is a command's from then on: what it writes counts.
func TestHomeOverwrittenWhileDown(t *testing.T) {
	for _, how := range []string{"overwritten", "replaced", "removed", "a link", "a directory"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, disk.Config{Watch: true})
			b.killed("placed", "p", b.file("/workspace/p", "arrived", 0o644), b.file("/workspace/q", "another", 0o644))
			want := map[string]string{"p": "file 0644 mine", "q": "file 0644 another"}
			switch how {
			case "overwritten":
				b.write("p", "mine")
			case "replaced":
				b.must(os.Remove(b.path("p")))
				b.write("p", "mine")
			case "removed":
				b.must(os.Remove(b.path("p")))
				b.open()
				b.settle()
				if list := b.ws.Skipped(nil); len(list) != 0 {
					t.Errorf("named: %v", list)
				}
				b.close()
				b.write("p", "mine")
			case "a link":
				b.must(os.Remove(b.path("p")))
				b.must(os.Symlink("mine", b.path("p")))
				want["p"] = "link mine"
			default:
				b.must(os.Remove(b.path("p")))
				b.write("p/r", "mine")
				delete(want, "p")
				want["p"], want["p/r"] = "dir 0755", "file 0644 mine"
			}
			b.open()
			b.settle()
			b.settle()
			b.want(want)
			b.wantLost()
			b.reopen()
			b.want(want)
		})
	}
}

// A file that changes each time before its content is asked for is stored by the settle after.
func TestHomeAskedForInVain(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		peer := changes.New(changes.Config{Workspace: b.ws})
		for _, text := range []string{"one", "two", "three"} {
			b.write("p", text)
			b.settle()
			b.write("p", "after "+text)
			got, err := peer.FetchObjects(t.Context(), []tree.Hash{tree.Sum([]byte(text))})
			if err == nil {
				d, e := got.Next(t.Context())
				got.Close(nil)
				if err = e; err == nil && string(d.Bytes) == text && text != "one" {
					return
				}
			}
			if !errors.Is(err, tree.ErrUnknownHash) {
				t.Fatal(err)
			}
		}
		t.Error("a file that changes all the time is never to be had")
	})
}

// Content of a file that is away while it is asked for, and then back as it was, is stored by the settle
// after: its path has not changed, and nobody would ask for it once more.
func TestHomeAwayWhenAskedFor(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		peer := changes.New(changes.Config{Workspace: b.ws})
		ask := func() (string, error) {
			got, err := peer.FetchObjects(t.Context(), []tree.Hash{tree.Sum([]byte("text"))})
			if err != nil {
				return "", err
			}
			d, err := got.Next(t.Context())
			got.Close(nil)
			return string(d.Bytes), err
		}
		b.write("d/p", "text")
		quiet(b)
		rev, away := b.rev(), b.dir+".away"
		b.must(os.Rename(b.path("d"), away))
		if text, err := ask(); !errors.Is(err, tree.ErrUnknownHash) {
			t.Errorf("while it is away: %q, %v", text, err)
		}
		b.must(os.Rename(away, b.path("d")))
		if b.settle(); b.rev() != rev {
			t.Errorf("revision %d, want %d", b.rev(), rev)
		}
		b.must(os.Rename(b.path("d"), away))
		if text, err := ask(); text != "text" || err != nil {
			t.Errorf("while it is away once more: %q, %v", text, err)
		}
		b.must(os.Rename(away, b.path("d")))
	})
}

// A version that a command has written to a file that an entry renames is not lost if the process
// dies, or the file cannot get its new name.
func TestHomeChangedAsItIsRenamed(t *testing.T) {
	for _, how := range []string{"killed", "stuck", "goes on"} {
		both(t, func(t *testing.T, b *bench) {
			b.write("a", "base")
			quiet(b)
			parts := []tree.Part{{Hash: tree.Sum([]byte("base")), Size: 4}}
			b.ws.Hook(func(op, path string) error {
				if op != "write" || path != "b" {
					return nil
				}
				switch how {
				case "killed":
					return errKilled
				case "stuck":
					return unix.EBUSY
				}
				return nil
			})
			_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{
				remove("/workspace/a"),
				{Kind: tree.KindFile, Path: "/workspace/b", Mode: 0o644, MTime: entryTime, Size: 4, Parts: parts},
			}), tree.SkipSame, func(*tree.Edit) error {
				return os.WriteFile(b.path("a"), []byte("by a command"), 0o644)
			})
			b.ws.Hook(nil)
			if _, pending := errors.AsType[*changes.PendingError](err); pending != (how != "goes on") {
				t.Fatal(err)
			}
			b.reopen()
			b.settle()
			b.want(map[string]string{"a": "file 0644 by a command"})
			b.wantLost()
			b.reopen()
			b.settle()
			b.want(map[string]string{"a": "file 0644 by a command"})
		})
	}
}

// A file that a command has open while an entry renames it is copied: what is written to it then is
// kept as a version of the old path.
func TestHomeOpenAsItIsRenamed(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("a", "base")
		quiet(b)
		f, err := os.OpenFile(b.path("a"), os.O_WRONLY|os.O_APPEND, 0)
		b.must(err)
		b.apply(
			remove("/workspace/a"),
			tree.Entry{Kind: tree.KindFile, Path: "/workspace/b", Mode: 0o644, MTime: entryTime, Size: 4, Parts: []tree.Part{{Hash: tree.Sum([]byte("base")), Size: 4}}},
		)
		_, err = f.WriteString(" and more")
		b.must(err)
		b.must(f.Close())
		b.settle()
		b.want(map[string]string{"b": "file 0644 base"})
		b.wantLost("a file 0644 base and more")
	})
}

// A command has opened a file just before an entry renames it, and writes to it while the file gets the
// time of the entry: the next settle finds what was written.
func TestHomeWrittenAsItIsRenamed(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("a", "base")
		quiet(b)
		b.ws.Hook(func(op, path string) error {
			if op != "dress" || path != "b" {
				return nil
			}
			return b.objects.Each(func(number, _ int64) error {
				return os.WriteFile(filepath.Join(b.objects.Path(), fmt.Sprintf("%016x", number)), []byte("mine"), 0o644)
			})
		})
		b.apply(
			remove("/workspace/a"),
			tree.Entry{Kind: tree.KindFile, Path: "/workspace/b", Mode: 0o644, MTime: entryTime, Size: 4, Parts: []tree.Part{{Hash: tree.Sum([]byte("base")), Size: 4}}},
		)
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{"b": "file 0644 mine"})
		b.check()
	})
}

// An object that is shorter than it was does not become a file.
func TestHomeCutObject(t *testing.T) {
	b := newBench(t, disk.Config{})
	entry := b.file("/workspace/p", "arrived", 0o644)
	b.must(b.objects.Each(func(number, _ int64) error {
		return os.Truncate(filepath.Join(b.objects.Path(), fmt.Sprintf("%016x", number)), 3)
	}))
	_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{entry}), tree.SkipSame, nil)
	if _, pending := errors.AsType[*changes.PendingError](err); !pending {
		t.Errorf("applied: %v", err)
	}
	if got := onDisk(t, b.dir); len(got) != 0 {
		t.Errorf("the directory has %v", got)
	}
	b.apply(remove("/workspace/p"))
}

// A window of an object that something else refers to as well is kept when the object becomes a file
// that a command overwrites at once.
func TestHomeSharedWindow(t *testing.T) {
	b := newBench(t, disk.Config{})
	first, second := strings.Repeat("1", tree.ChunkSize), strings.Repeat("2", 100)
	entry := b.file("/workspace/p", first+second, 0o644)
	other := tree.Entry{Kind: tree.KindFile, Path: "/beside", Mode: 0o644, MTime: entryTime, Size: 100, Parts: entry.Parts[1:]}
	b.apply(other)
	b.ws.Hook(func(op, path string) error {
		if op == "placed" && path == "p" {
			b.write("p", "mine")
		}
		return nil
	})
	b.apply(entry)
	b.ws.Hook(nil)
	b.settle()
	b.want(map[string]string{"p": "file 0644 mine"})
	if got, err := b.tree.ReadFile(t.Context(), "/beside", 1000); err != nil || string(got) != second {
		t.Errorf("what is beside has %d bytes, %v", len(got), err)
	}
}

// Objects that are taken away by hand are no reason to remove anything, nor to say that content is
// here: once they are back, or the content is sent again, it arrives.
func TestHomeObjectsTakenAway(t *testing.T) {
	for i, how := range []string{"back", "sent again", "back", "sent again"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, disk.Config{})
			if i > 1 {
				b.write("p", "old")
				quiet(b)
			}
			b.killed("write", "p", b.file("/workspace/p", "arrived", 0o644))
			away := b.objects.Path() + ".away"
			b.must(os.Rename(b.objects.Path(), away))
			b.open()
			b.settle()
			if list := b.ws.Skipped(nil); len(list) != 1 {
				t.Errorf("named: %v", list)
			}
			if got := b.inTree(); got["p"] != "file 0644 (gone)" {
				t.Errorf("the tree has %v", got)
			}
			if held, err := b.forest.Held(t.Context(), []tree.Hash{tree.Sum([]byte("arrived"))}); err != nil || held[0] {
				t.Errorf("held: %v, %v", held, err)
			}
			if how == "back" {
				b.close()
				b.must(os.Remove(b.objects.Path()))
				b.must(os.Rename(away, b.objects.Path()))
				b.open()
			} else {
				b.parts("arrived")
			}
			b.settle()
			b.want(map[string]string{"p": "file 0644 arrived"})
		})
	}
}

// A file that looks as it did is known to have its content without being read; that is what lets a
// collection leave content to the files.
func TestHomeSettled(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/p", "text")
		b.must(os.Symlink("p", b.path("d/link")))
		quiet(b)
		for path, want := range map[string]bool{"d/p": true, "d": false, "d/link": false, "d/none": false} {
			if is, err := b.ws.Settled(t.Context(), path); err != nil || is != want {
				t.Errorf("%s: %v, %v", path, is, err)
			}
		}
		b.write("d/p", "other")
		if is, err := b.ws.Settled(t.Context(), "d/p"); err != nil || is {
			t.Errorf("changed: %v, %v", is, err)
		}
	})
}

// An object that became a file before a crash, and that an entry replaced then, is not missed.
func TestHomeReplacedAfterACrash(t *testing.T) {
	for _, how := range []string{"replaced", "removed", "renamed and changed"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, disk.Config{})
			b.killed("placed", "p", b.file("/workspace/p", "arrived", 0o644))
			want := map[string]string{"p": "file 0644 later"}
			if how == "replaced" {
				b.open()
			} else {
				b.must(os.Rename(b.path("p"), b.path("q")))
				want["q"] = "file 0644 arrived"
				if how == "removed" {
					b.must(os.Remove(b.path("q")))
					delete(want, "q")
				}
				b.open()
			}
			b.apply(b.file("/workspace/p", "later", 0o644))
			if how == "renamed and changed" {
				b.write("q", "mine")
				want["q"] = "file 0644 mine"
			}
			quiet(b)
			b.want(want)
			b.reopen()
			hash := tree.Sum([]byte("arrived"))
			if held, err := b.forest.Held(t.Context(), []tree.Hash{hash}); err != nil {
				t.Error(err)
			} else if _, err := b.forest.Chunk(t.Context(), hash, nil); held[0] && err != nil {
				t.Errorf("what is said to be held is not: %v", err)
			}
			if _, err := b.forest.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// An object becomes a file, the store does not come to know, and somebody takes the file away: that is
// news, and holds up nothing.
func TestHomeTakenAwayAfterACrash(t *testing.T) {
	for _, how := range []string{"removed", "moved", "with its directory", "directory moved", "a directory"} {
		for _, when := range []string{"killed", "killed twice", "store is full"} {
			t.Run(how+", "+when, func(t *testing.T) {
				b := newBench(t, disk.Config{})
				b.write("e/f", "old")
				quiet(b)
				list := []tree.Entry{folder("/workspace/d", 0o755), b.file("/workspace/d/p", "arrived", 0o644)}
				if when == "store is full" {
					b.ws.Hook(func(op, path string) error {
						b.gate.full.Store(b.gate.full.Load() || op == "placed" && path == "d/p")
						return nil
					})
					if _, err := b.ws.Apply(t.Context(), seq(list), tree.SkipSame, nil); !errors.Is(err, errFull) {
						t.Fatalf("applied with a full store: %v", err)
					}
					b.ws.Hook(nil)
					b.gate.full.Store(false)
				} else {
					b.killed("placed", "d/p", list...)
				}
				want := map[string]string{"d": "dir 0755", "e": "dir 0755", "e/f": "file 0644 old"}
				switch how {
				case "removed":
					b.must(os.Remove(b.path("d/p")))
				case "moved":
					b.must(os.Rename(b.path("d/p"), b.path("e/q")))
					want["e/q"] = "file 0644 arrived"
				case "with its directory":
					b.must(os.RemoveAll(b.path("d")))
				case "directory moved":
					b.must(os.Rename(b.path("d"), b.path("d2")))
					want["d2"], want["d2/p"] = "dir 0755", "file 0644 arrived"
				default:
					b.must(os.Remove(b.path("d/p")))
					b.must(os.Mkdir(b.path("d/p"), 0o755))
					want["d/p"] = "dir 0755"
				}
				if when != "store is full" {
					b.open()
					if how == "moved" || how == "directory moved" {
						want["d/p"] = "file 0644 arrived" // its content is found, and brought once more
					}
				}
				if when == "killed twice" {
					b.reopen()
				}
				b.settle()
				b.settle()
				if list := b.ws.Skipped(nil); len(list) != 0 {
					t.Errorf("named: %v", list)
				}
				b.want(want)
				b.wantLost()
				if _, err := b.forest.Verify(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A version that is kept while the same content arrives does not lose it to the file that it becomes
// when a command overwrites that, also if the version was kept after the file had come.
func TestHomeKeptWhileTheSameArrives(t *testing.T) {
	for _, names := range [][2]string{{"a", "p"}, {"p", "a"}} {
		both(t, func(t *testing.T, b *bench) {
			version, arrives := names[0], names[1]
			b.write(version, "old")
			quiet(b)
			b.ws.Hook(func(op, path string) error {
				switch {
				case op == "place" && path == version:
					b.write(version, "same") // nobody has settled it
				case op == "placed" && path == "p": // the last of the two
					b.write(arrives, "mine")
				}
				return nil
			})
			b.apply(b.file("/workspace/"+version, "entry", 0o644), b.file("/workspace/"+arrives, "same", 0o600))
			b.ws.Hook(nil)
			b.settle()
			b.wantLost(version + " file 0644 same")
			if _, err := b.forest.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
