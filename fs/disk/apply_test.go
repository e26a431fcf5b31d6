package disk_test

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// TestC038ChildBeforeDirectory: entries come in the order of revisions, not of paths.
func TestC038ChildBeforeDirectory(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		batch := []tree.Entry{
			b.file("/workspace/new/f", "x", 0o644), link("/workspace/new/l", "f"), folder("/workspace/new", 0o750), folder("/workspace", 0o700),
		}
		b.apply(batch...)
		want := map[string]string{"new": "dir 0750", "new/f": "file 0644 x", "new/l": "link f"}
		b.want(want)
		if info, err := os.Stat(b.dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the directory: %v, %v", info.Mode(), err)
		}
		if done := b.apply(batch...); done.Changed != 0 {
			t.Errorf("again: %+v", done)
		}
		b.apply(remove("/workspace/new/f"), remove("/workspace/new"), remove("/workspace/new/l"))
		b.want(map[string]string{})
	})
}

// TestC039TypeChanges: what has become something else, in both directions.
func TestC039TypeChanges(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		outside := t.TempDir()
		b.must(os.WriteFile(filepath.Join(outside, "keep"), []byte("keep"), 0o644))
		setup := func() {
			b.apply(remove("/workspace"))
			b.write("t", "a file")
			for i := range 3 {
				b.write(fmt.Sprintf("d/sub/f%d", i), "in d")
			}
			b.write("x", "this is x")
			b.write("y", "that is y")
			b.write("e/f", "in e")
			b.settle()
		}
		want := map[string]string{
			"t": "dir 0755", "t/t": "file 0644 in t", "d": "file 0644 now a file", "x": "file 0644 that is y", "y": "file 0644 this is x",
			"e": "link " + outside,
		}
		setup()
		b.apply(remove("/workspace/t"), folder("/workspace/t", 0o755), b.file("/workspace/t/t", "in t", 0o644),
			b.file("/workspace/d", "now a file", 0o644), b.file("/workspace/x", "that is y", 0o644), b.file("/workspace/y", "this is x", 0o644),
			link("/workspace/e", outside))
		b.want(want)

		setup()
		b.must(os.Remove(b.path("t")))
		b.write("t/t", "in t")
		b.must(os.RemoveAll(b.path("d")))
		b.write("d", "now a file")
		b.must(os.Rename(b.path("x"), b.path("z")))
		b.must(os.Rename(b.path("y"), b.path("x")))
		b.must(os.Rename(b.path("z"), b.path("y")))
		b.must(os.RemoveAll(b.path("e")))
		b.must(os.Symlink(outside, b.path("e")))
		b.settle()
		b.want(want)

		// Nothing is written through the link: what is below it makes room for a directory.
		_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{b.file("/workspace/e/keep", "other", 0o644)}), tree.SkipSame|tree.RealParents, nil)
		b.must(err)
		want["e"], want["e/keep"] = "dir 0755", "file 0644 other"
		b.want(want)
		if got := onDisk(t, outside); len(got) != 1 || got["keep"] != "file 0644 keep" {
			t.Errorf("outside: %v", got)
		}
	})
}

// What is not below the mount is in the tree only.
func TestOutsideOfTheMount(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	done := b.apply(b.file("/etc/f", "x", 0o644), folder("/workspaces", 0o755), b.file("/workspace/in", "y", 0o644),
		link("/workspace/out", "/etc"), b.file("/workspace/out/g", "z", 0o644), link("/short", "workspace"), b.file("/short/h", "w", 0o644))
	if done.Changed != 7 {
		t.Errorf("%+v", done)
	}
	b.want(map[string]string{"in": "file 0644 y", "out": "link /etc", "h": "file 0644 w"})
	if data, err := b.tree.ReadFile(t.Context(), "/etc/g", 10); err != nil || string(data) != "z" {
		t.Errorf("%q, %v", data, err)
	}
	rev := b.rev()
	b.settle()
	b.told(rev)
	// A name of ours is one of the tree's, but never on the disk.
	b.apply(b.file("/workspace/.wsd-tmp-0123456789abcdef", "x", 0o644), b.file("/workspace/.wsd-tmp-0123456789abcdef0", "y", 0o644))
	if got := onDisk(t, b.dir); len(got) != 4 || got[".wsd-tmp-0123456789abcdef0"] == "" {
		t.Errorf("on disk: %v", got)
	}
	b.check()
}

// The directory itself stays what it is.
func TestMount(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "1")
		b.write("g", "2")
		b.must(unix.Mkfifo(b.path("fifo"), 0o600))
		b.settle()
		for _, path := range []string{"/workspace", "/"} {
			for _, e := range []tree.Entry{b.file(path, "x", 0o644), link(path, "x")} {
				if _, err := b.ws.Apply(t.Context(), seq([]tree.Entry{e}), 0, nil); !errors.Is(err, iofs.ErrPermission) {
					t.Errorf("%v at %s: %v", e.Kind, path, err)
				}
			}
		}
		b.apply(remove("/workspace"), b.file("/workspace/d/new", "3", 0o644))
		if got := onDisk(t, b.dir); got["fifo"] != "special" {
			t.Errorf("the removal has taken what no tree can have: %v", got)
		}
		b.must(os.Remove(b.path("fifo")))
		b.want(map[string]string{"d": "dir 0755", "d/new": "file 0644 3"})
		b.apply(remove("/workspace"))
		b.want(map[string]string{})
		b.write("again", "x")
		b.settle()
		b.want(map[string]string{"again": "file 0644 x"})
	})
}

// A directory that is new where something else was removed is news, also with nothing in it but
// what no tree can have. Only one that has stayed is none.
func TestDirectoryOfSpecialFilesIsNews(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("file", "1")
		b.must(os.Mkdir(b.path("dir"), 0o750))
		b.write("stays/f", "1")
		b.must(unix.Mkfifo(b.path("stays/fifo"), 0o600))
		b.settle()
		b.apply(remove("/workspace/stays/f"), remove("/workspace/stays"))
		b.must(os.Remove(b.path("file")))
		b.must(os.Remove(b.path("dir")))
		b.settle()
		for _, name := range []string{"file", "dir"} {
			b.must(os.Mkdir(b.path(name), 0o755))
			b.must(unix.Mkfifo(b.path(name+"/fifo"), 0o600))
		}
		b.settle()
		want := map[string]string{"file": "dir 0755", "dir": "dir 0755"}
		if diff := cmp.Diff(want, b.inTree()); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		if got := onDisk(t, b.dir); got["stays/fifo"] != "special" {
			t.Errorf("on disk: %v", got)
		}
	})
}

func TestRootMount(t *testing.T) {
	b := newBench(t, disk.Config{Mount: "/", Watch: true})
	b.write("d/f", "1")
	b.settle()
	b.apply(b.file("/d/g", "2", 0o644), folder("/", 0o711))
	if got := onDisk(t, b.dir); got["d/g"] != "file 0644 2" {
		t.Error(got)
	}
	b.check()
}

// A batch is applied as a whole or not at all, with what belongs to it.
func TestAllOrNothing(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("f", "1")
	b.settle()
	rev := b.rev()
	boom := errors.New("boom")
	good := b.file("/workspace/g", "2", 0o644)
	bad := tree.Entry{Kind: tree.KindFile, Path: "/workspace/h", Size: 1, Parts: []tree.Part{{Hash: tree.Sum([]byte("nobody has it")), Size: 1}}}
	for name, call := range map[string]func() error{
		"a missing chunk": func() error {
			_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{good, bad}), 0, nil)
			if !errors.Is(err, tree.ErrUnknownHash) {
				t.Errorf("%v", err)
			}
			return err
		},
		"the stream": func() error {
			_, err := b.ws.Apply(t.Context(), func(*tree.Edit) iter.Seq2[tree.Entry, error] {
				return func(yield func(tree.Entry, error) bool) { _ = yield(good, nil) && yield(tree.Entry{}, boom) }
			}, 0, nil)
			return err
		},
		"also": func() error {
			_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{good}), 0, func(*tree.Edit) error { return boom })
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s: applied", name)
		}
		b.want(map[string]string{"f": "file 0644 1"})
		b.told(rev)
	}
	var peer tree.Peer
	_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{good}), 0, func(e *tree.Edit) (err error) {
		peer, err = e.SetPeer(tree.Peer{ID: "p", Fetch: tree.At(7)})
		return err
	})
	b.must(err)
	if got, err := b.tree.Peer(t.Context(), "p"); err != nil || got != peer || got.Fetch.Rev != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A version that a command writes while an entry for it arrives is kept in the store, and
// the entry, which came last, stays.
func TestOvertaken(t *testing.T) {
	for _, moment := range []string{"write", "place"} {
		for _, there := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, there=%v", moment, there), func(t *testing.T) {
				b := newBench(t, disk.Config{Watch: true})
				if there {
					b.write("f", "old")
				}
				quiet(b)
				var once atomic.Bool
				b.ws.Hook(func(op, path string) error {
					if op == moment && path == "f" && once.CompareAndSwap(false, true) {
						return os.WriteFile(b.path("f"), []byte("by a command"), 0o644)
					}
					return nil
				})
				b.apply(b.file("/workspace/f", "by a peer", 0o644))
				b.ws.Hook(nil)
				b.want(map[string]string{"f": "file 0644 by a peer"})
				held, err := b.forest.Held(t.Context(), []tree.Hash{tree.Sum([]byte("by a command"))})
				if err != nil || !held[0] || b.ws.Stats().Overtaken != 1 {
					t.Errorf("held %v, %v; %+v", held, err, b.ws.Stats())
				}
			})
		}
	}
}

// What a command does to a file as soon as it is there is the command's, and found.
func TestChangedAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(path string) error
		want map[string]string
	}{
		"removed": {os.Remove, map[string]string{}},
		"mode":    {func(path string) error { return os.Chmod(path, 0o755) }, map[string]string{"f": "file 0755 by a peer"}},
		"content": {func(path string) error { return os.WriteFile(path, []byte("mine then"), 0o644) }, map[string]string{"f": "file 0644 mine then"}},
		"replaced": {func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte("a command's"), 0o644), os.Rename(path+"2", path))
		}, map[string]string{"f": "file 0644 a command's"}},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.ws.Hook(func(op, path string) error {
					if op == "placed" {
						return tt.do(b.path(path))
					}
					return nil
				})
				b.apply(b.file("/workspace/f", "by a peer", 0o644))
				b.ws.Hook(nil)
				b.settle()
				b.want(tt.want)
			})
		})
	}
}

// The same as TestOvertaken for a file in a directory that a peer deletes, and for a directory
// that appears where a file is to be: both stay.
func TestOvertakenDirectory(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("d/f", "old")
	b.write("d/e/f", "old")
	quiet(b)
	b.ws.Hook(func(op, path string) error {
		if op != "clear" || path != "d" {
			return nil
		}
		b.ws.Hook2(nil)
		return os.WriteFile(b.path("d/new"), []byte("made by a command"), 0o644)
	})
	done, err := b.ws.Apply(t.Context(), seq([]tree.Entry{remove("/workspace/d")}), tree.SkipSame, nil)
	b.must(err)
	if want := []changes.Kept{{Path: "/workspace/d", Names: []string{"/workspace/d/new"}}}; !cmp.Equal(done.Kept, want) {
		t.Errorf("kept %+v, want %+v", done.Kept, want)
	}
	b.settle()
	b.want(map[string]string{"d": "dir 0755", "d/new": "file 0644 made by a command"})
	b.ws.Hook(func(op, path string) error {
		if op == "place" && path == "g" {
			b.ws.Hook2(nil)
			return errors.Join(os.Mkdir(b.path("g"), 0o755), os.WriteFile(b.path("g/h"), []byte("made by another"), 0o644))
		}
		return nil
	})
	b.apply(b.file("/workspace/g", "a file", 0o644))
	b.ws.Hook(nil)
	b.settle()
	b.wantAside(map[string]string{
		"d": "dir 0755", "d/new": "file 0644 made by a command",
		"g": "file 0644 a file", "g.conflict-": "dir 0755", "g.conflict-/h": "file 0644 made by another",
	})
}

// The same with many files, which are removed several at once: what has changed or has come stays, and
// is named in order.
func TestOvertakenAmongMany(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		for i := range 100 {
			b.write(fmt.Sprintf("d/f%02d", i), "old")
		}
		for i := range 20 {
			b.write(fmt.Sprintf("d/e%02d/f", i), "old")
		}
		quiet(b)
		b.ws.Hook(func(op, path string) error {
			if op != "clear" || path != "d" {
				return nil
			}
			b.ws.Hook2(nil)
			var errs []error
			for i := 0; i < 100; i += 30 {
				errs = append(errs, os.WriteFile(b.path(fmt.Sprintf("d/f%02d", i)), []byte("newer"), 0o644))
			}
			for i := 0; i < 20; i += 7 {
				errs = append(errs, os.WriteFile(b.path(fmt.Sprintf("d/e%02d/new", i)), []byte("newer"), 0o644))
			}
			return errors.Join(append(errs, os.Chmod(b.path("d"), 0o500))...)
		})
		done, err := b.ws.Apply(t.Context(), seq([]tree.Entry{remove("/workspace/d")}), tree.SkipSame, nil)
		b.must(err)
		want := []changes.Kept{{Path: "/workspace/d", More: 4, Names: []string{
			"/workspace/d/e00/new", "/workspace/d/e07/new", "/workspace/d/e14/new",
		}}}
		if diff := cmp.Diff(want, done.Kept); diff != "" {
			t.Error(diff)
		}
		b.settle()
		b.want(map[string]string{
			"d": "dir 0500", "d/f00": "file 0644 newer", "d/f30": "file 0644 newer", "d/f60": "file 0644 newer", "d/f90": "file 0644 newer",
			"d/e00": "dir 0755", "d/e07": "dir 0755", "d/e14": "dir 0755",
			"d/e00/new": "file 0644 newer", "d/e07/new": "file 0644 newer", "d/e14/new": "file 0644 newer",
		})
		b.must(os.Chmod(b.path("d"), 0o755))
	})
}

// A directory that a command makes while entries for what is in it arrive has more in it.
func TestMadeMeanwhile(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.settle()
		entries := func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
			b.write("d/theirs", "made by a command") // after the settle
			return seq([]tree.Entry{folder("/workspace/d", 0o700), b.fileIn(e, "/workspace/d/ours", "pushed")})(e)
		}
		_, err := b.ws.Apply(t.Context(), entries, tree.SkipSame, nil)
		b.must(err)
		b.settle()
		b.want(map[string]string{"d": "dir 0700", "d/ours": "file 0644 pushed", "d/theirs": "file 0644 made by a command"})
	})
}

// fileIn stores content in an edit.
func (b *bench) fileIn(e *tree.Edit, path, text string) tree.Entry {
	b.t.Helper()
	h := tree.Sum([]byte(text))
	b.must(e.PutChunks(tree.Data{Hash: h, Bytes: []byte(text)}))
	return tree.Entry{
		Kind: tree.KindFile, Path: path, Mode: 0o644, MTime: entryTime, Size: int64(len(text)), Parts: []tree.Part{{Hash: h, Size: int64(len(text))}},
	}
}

// What cannot be written now is written later: by the next call, or the next start.
func TestNoSpace(t *testing.T) {
	for _, how := range []string{"settle", "apply", "open"} {
		for _, reason := range []error{unix.ENOSPC, unix.EDQUOT, unix.EIO} {
			t.Run(fmt.Sprint(how, " ", reason), func(t *testing.T) {
				b := newBench(t, disk.Config{Watch: true})
				b.write("f", "old")
				b.write("gone", "x")
				b.settle()
				b.ws.Hook(func(op, path string) error {
					if op == "write" && path != "small" || op == "clear" {
						return reason
					}
					return nil
				})
				batch := []tree.Entry{
					b.file("/workspace/f", "new", 0o644), b.file("/workspace/small", "s", 0o644), b.file("/workspace/d/g", "deep", 0o600), remove("/workspace/gone"),
				}
				done, err := b.ws.Apply(t.Context(), seq(batch), tree.SkipSame, nil)
				if _, ok := errors.AsType[*changes.PendingError](err); !ok || !errors.Is(err, reason) || done.Changed != 4 {
					t.Errorf("%+v, %v", done, err)
				}
				b.write("beside", "a command's")
				b.settle() // which tries again, and goes on
				if text, err := b.tree.ReadFile(t.Context(), "/workspace/beside", 100); err != nil || string(text) != "a command's" {
					t.Errorf("what a command made meanwhile: %q, %v", text, err)
				}
				b.must(os.Remove(b.path("beside")))
				b.settle()
				for path, text := range map[string]string{"f": "old", "gone": "x", "small": "s"} {
					if got, err := os.ReadFile(b.path(path)); err != nil || string(got) != text {
						t.Errorf("%s: %q, %v", path, got, err)
					}
				}
				want := map[string]string{"f": "file 0644 new", "small": "file 0644 s", "d": "dir 0755", "d/g": "file 0600 deep"}
				b.ws.Hook(nil)
				rev := b.rev()
				switch how {
				case "settle":
					b.settle()
				case "apply":
					b.apply()
				default:
					b.reopen()
				}
				b.want(want)
				b.told(rev)
				for name := range onDisk(t, b.dir) {
					if strings.Contains(name, ".wsd-tmp-") {
						t.Errorf("left: %s", name)
					}
				}
			})
		}
	}
}

// What a crash has left is removed; what only looks like it stays.
func TestLeftovers(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("d/.wsd-tmp-00112233445566aa", "half of it")
	b.write("d/.wsd-tmp-00112233445566ax", "somebody's")
	b.settle()
	b.reopen()
	b.want(map[string]string{"d": "dir 0755", "d/.wsd-tmp-00112233445566ax": "file 0644 somebody's"})
}

// A new directory gets what the store has; an old one keeps what it has.
func TestRestore(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("d/f", "1")
	b.must(os.Symlink("f", b.path("d/l")))
	b.must(os.Chmod(b.path("d"), 0o700))
	b.settle()
	want := map[string]string{"d": "dir 0700", "d/f": "file 0644 1", "d/l": "link f"}
	rev := b.rev()
	b.close()
	// The directory was lost, and with it what its files had.
	b.must(os.Rename(b.dir, b.dir+".lost"))
	b.must(os.Mkdir(b.dir, 0o755))
	b.openStore()
	cfg := b.cfg
	cfg.Dir, cfg.Forest, cfg.Tree, cfg.Objects = b.dir, b.forest, b.tree, b.objects
	if _, err := disk.Open(t.Context(), cfg); !errors.Is(err, disk.ErrNoDirectory) {
		t.Errorf("with an empty directory in its place: %v", err)
	}
	b.closeStore()
	b.must(os.Remove(b.dir))
	b.must(os.Rename(b.dir+".lost", b.dir))
	b.open()
	b.want(want)
	b.told(rev)
	// What is in objects as well comes back.
	_, err := b.tree.Update(t.Context(), func(e *tree.Edit) error { return e.Secure(tree.Sum([]byte("1"))) })
	b.must(err)
	b.close()
	b.must(os.RemoveAll(b.dir))
	b.must(os.Mkdir(b.dir, 0o755))
	b.open()
	b.want(want)
	b.told(rev)
	b.close()
	// Everything in it was removed while nobody looked.
	b.must(os.RemoveAll(b.path("d")))
	b.open()
	b.want(map[string]string{})
	b.told(rev, "-d", "-d/f", "-d/l")
	b.close()
	// The store knows a tree, and nothing of a directory; this one has something.
	b.store = filepath.Join(filepath.Dir(b.store), "other.db")
	b.openStore()
	_, err = b.tree.Update(t.Context(), func(e *tree.Edit) error {
		for _, entry := range []tree.Entry{b.fileIn(e, "/workspace/d/g", "stored"), b.fileIn(e, "/workspace/both", "stored")} {
			if _, err := e.Apply(&entry, 0); err != nil {
				return err
			}
		}
		return nil
	})
	b.must(err)
	b.must(b.db.Close())
	b.write("both", "on disk")
	b.write("e", "on disk")
	b.open()
	b.want(map[string]string{"both": "file 0644 on disk", "d": "dir 0755", "d/g": "file 0644 stored", "e": "file 0644 on disk"})
}

// Somebody swaps a directory for a link, again and again, while entries are applied below
// it and it is settled.
func TestSwaps(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		outside := t.TempDir()
		for _, name := range []string{"f", "sub/f"} {
			b.must(os.MkdirAll(filepath.Dir(filepath.Join(outside, name)), 0o755))
			b.must(os.WriteFile(filepath.Join(outside, name), []byte("outside"), 0o600))
		}
		before := onDisk(t, outside)
		b.write("d/sub/f", "inside")
		b.settle()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { // ends with the test
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Rename(b.path("d"), b.path("away"))
				_ = os.Symlink(outside, b.path("d"))
				_ = os.Remove(b.path("d"))
				_ = os.Rename(b.path("away"), b.path("d"))
			}
		})
		for i := range 32 / fewer {
			text := fmt.Sprint("version ", i)
			batch := []tree.Entry{
				b.file("/workspace/d/sub/f", text, 0o644), b.file("/workspace/d/f", text, 0o666), folder("/workspace/d/sub", 0o777),
				b.file("/workspace/d/new/g", text, 0o644), remove("/workspace/d/sub/h"),
			}
			if i%7 == 6 {
				batch = append(batch, remove("/workspace/d"))
			}
			// That it fails is no fault: somebody works against it.
			_, _ = b.ws.Apply(context.Background(), seq(batch), tree.SkipSame|tree.RealParents, nil)
			b.must(b.ws.Consistent(context.Background()))
			_ = b.ws.Settle(context.Background())
			b.must(b.ws.Consistent(context.Background()))
		}
		close(stop)
		wg.Wait()
		if after := onDisk(t, outside); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("outside: %v, was %v", after, before)
		}
		b.settle()
		b.same()
		for path, text := range b.inTree() {
			if strings.Contains(text, "outside") && !strings.HasPrefix(text, "link") {
				t.Errorf("the tree has %s: %s", path, text)
			}
		}
	})
}

// A directory goes, or is renamed, while an entry for something in it is on its way. It is
// made again for the entry; what was in it besides is where the command has put it.
func TestDirectoryGoes(t *testing.T) {
	for _, how := range []string{"removed", "renamed"} {
		t.Run(how, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.write("d/a", "1")
				b.write("d/sub/b", "2")
				b.must(os.Chmod(b.path("d"), 0o750))
				b.settle()
				b.ws.Hook(func(op, path string) error {
					if op != "clear" || path != "a-first" {
						return nil
					}
					if how == "removed" {
						return os.RemoveAll(b.path("d"))
					}
					return os.Rename(b.path("d"), b.path("e"))
				})
				b.write("a-first", "")
				b.apply(remove("/workspace/a-first"), b.file("/workspace/d/new", "3", 0o644))
				b.ws.Hook(nil)
				b.settle()
				want := map[string]string{"d": "dir 0750", "d/new": "file 0644 3"}
				if how == "renamed" {
					want["e"], want["e/a"], want["e/sub"], want["e/sub/b"] = "dir 0750", "file 0644 1", "dir 0755", "file 0644 2"
				}
				b.want(want)
				b.write("d/later", "4") // it is watched
				b.settle()
				want["d/later"] = "file 0644 4"
				b.want(want)
			})
		})
	}
}

// What was brought is known: nothing of it is read by the next settle.
func TestBroughtIsNotRead(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/old", "1")
		for start := time.Now(); time.Since(start) < 2*disk.Granularity; { // until its times tell
			b.settle()
		}
		b.apply(b.file("/workspace/d/old", "2", 0o644), b.file("/workspace/d/new", "3", 0o400), b.file("/workspace/e/new", "", 0o644))
		read := b.ws.Stats().FilesRead
		b.settle()
		if n := b.ws.Stats().FilesRead - read; n != 0 {
			t.Errorf("%d files were read", n)
		}
	})
}

// C-071: an entry that changes the time of a file alone does so on the disk, and nothing is
// written.
func TestC071TimeAlone(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("f", "1")
		quiet(b)
		before, err := os.Stat(b.path("f"))
		b.must(err)
		entry := b.file("/workspace/f", "1", 0o644)
		entry.MTime = time.Unix(1_577_836_800, 123_456_789)
		b.ws.Hook(func(op, path string) error {
			if op == "write" {
				t.Errorf("%s was written", path)
			}
			return nil
		})
		done, err := b.ws.Apply(t.Context(), seq([]tree.Entry{entry}), tree.SkipSame|tree.SetTimes, nil)
		b.must(err)
		after, err := os.Stat(b.path("f"))
		b.must(err)
		if done.Changed != 1 || !os.SameFile(before, after) || !after.ModTime().Equal(entry.MTime) {
			t.Errorf("%+v, %v", done, after.ModTime())
		}
		b.ws.Hook(nil)
		rev := b.rev()
		b.settle()
		b.reopen()
		if now := b.rev(); now != rev {
			t.Errorf("revision %d became %d", rev, now)
		}
	})
}

// An entry is asked for after the one before it is applied, so that it may depend on that.
func TestApplyAsksForOneAfterTheOther(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		list := []tree.Entry{b.file("/workspace/f", "x", 0o644), folder("/workspace/d", 0o755), link("/workspace/l", "f"), remove("/workspace/f")}
		_, err := b.ws.Apply(t.Context(), func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
			return func(yield func(tree.Entry, error) bool) {
				for i := range list {
					if i > 0 {
						before, err := e.Entry(list[i-1].Path)
						if err != nil || before.Kind != list[i-1].Kind {
							t.Errorf("%s is %v, %v", list[i-1].Path, before.Kind, err)
						}
					}
					if !yield(list[i], nil) {
						return
					}
				}
			}
		}, 0, nil)
		b.must(err)
		b.want(map[string]string{"d": "dir 0755", "l": "link f"})
	})
}
