package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
)

// both runs a test with a watcher and without.
func both(t *testing.T, test func(t *testing.T, b *bench)) {
	for _, watch := range []bool{false, true} {
		t.Run(fmt.Sprintf("watch=%v", watch), func(t *testing.T) {
			test(t, newBench(t, disk.Config{Watch: watch}))
		})
	}
}

// told compares what the tree says has changed after a revision.
func (b *bench) told(after int64, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.changed(after)); diff != "" {
		b.t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestC040Modes: modes arrive, alone too, and nothing is left for a second round.
func TestC040Modes(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "x")
		for i, mode := range []uint32{0o755, 0o644, 0o600, 0o444, 0o000, 0o4711, 0o2755} {
			b.must(unix.Chmod(b.path("d/f"), mode))
			rev := b.rev()
			b.settle()
			if i > 0 {
				b.told(rev, "+d/f")
			}
			b.want(map[string]string{"d": "dir 0755", "d/f": fmt.Sprintf("file %04o x", mode)})
			rev = b.rev()
			b.settle()
			b.told(rev)
		}
		b.must(unix.Chmod(b.path("d"), 0o1777))
		rev := b.rev()
		b.settle()
		b.told(rev, "+d")
		for _, mode := range []uint32{0o755, 0o644, 0o600, 0o444, 0o000, 0o4711} {
			b.apply(b.file("/workspace/d/f", "x", mode), b.file("/workspace/g", fmt.Sprint(mode), mode), folder("/workspace/d", 0o500))
			b.want(map[string]string{"d": "dir 0500", "d/f": fmt.Sprintf("file %04o x", mode), "g": fmt.Sprintf("file %04o %d", mode, mode)})
			rev := b.rev()
			b.settle()
			b.told(rev)
		}
		// A rewrite keeps the mode, and another file brings its own.
		b.must(os.WriteFile(b.path("g"), []byte("rewritten"), 0o600))
		b.must(os.WriteFile(b.path("h"), []byte("new"), 0o600))
		b.must(os.Rename(b.path("h"), b.path("d/f")))
		b.settle()
		b.want(map[string]string{"d": "dir 0500", "d/f": "file 0600 new", "g": "file 4711 rewritten"})
	})
}

func TestTouch(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("f", "x")
		b.settle()
		rev := b.rev()
		b.must(os.Chtimes(b.path("f"), entryTime, entryTime))
		b.settle()
		b.told(rev, "+f")
		if e, err := b.tree.Entry(t.Context(), "/workspace/f"); err != nil || !e.MTime.Equal(entryTime) {
			t.Errorf("%v, %v", e.MTime, err)
		}
	})
}

// Links to nothing, and what is neither file, directory nor link, are left out, with one warning
// for each reason.
func TestLeftOut(t *testing.T) {
	for _, watch := range []bool{false, true} {
		var log bytes.Buffer
		b := newBench(t, disk.Config{Watch: watch, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b.write("d/ok", "x")
		for i := range 3 {
			b.must(os.Symlink(" ", b.path(fmt.Sprintf("d/\xff%d", i))))
			b.must(unix.Mkfifo(b.path(fmt.Sprint("d/fifo", i)), 0o644)) // opening one would wait for ever
		}
		b.must(os.Symlink(strings.Repeat(" ", 9), b.path("link")))
		sock, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", b.path("socket"))
		b.must(err)
		defer sock.Close()
		b.settle()
		want := map[string]string{"d": "dir 0755", "d/ok": "file 0644 x"}
		if diff := cmp.Diff(want, b.inTree()); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		s := b.ws.Stats()
		if s.SkippedNames < 4 || s.SkippedSpecial < 4 || strings.Count(log.String(), "level=WARN") != 2 {
			t.Errorf("%+v, log:\n%s", s, log.String())
		}
		// A pipe in the place of a file is no removal of it.
		b.must(os.Remove(b.path("d/ok")))
		b.must(unix.Mkfifo(b.path("d/ok"), 0o644))
		b.settle()
		b.wantTree(map[string]string{"d": "dir 0755", "d/ok": "file 0644 (gone)"})
		// A deleted directory stays with what nobody knows of. It is not news, before
		// something in it is.
		rev := b.rev()
		b.apply(remove("/workspace/d"))
		b.settle()
		if got := b.inTree(); len(got) > 0 {
			t.Errorf("the tree has %v", got)
		}
		b.told(rev, "-d", "-d/ok")
		for _, path := range []string{"d/\xff0", "d/fifo0", "d/ok"} {
			if _, err := os.Lstat(b.path(path)); err != nil {
				t.Errorf("the other side's removal has taken %q: %v", path, err)
			}
		}
		b.write("d/e/new", "y")
		b.settle()
		want = map[string]string{"d": "dir 0755", "d/e": "dir 0755", "d/e/new": "file 0644 y"}
		if diff := cmp.Diff(want, b.inTree()); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
	}
}

// Names of one file are independent files. What is written through one is seen under all,
// though the system tells of that one only, or of none.
func TestHardLinks(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		outside := filepath.Join(t.TempDir(), "outside")
		b.write("a/one", "1")
		b.must(os.Mkdir(b.path("b"), 0o755))
		b.must(os.Link(b.path("a/one"), b.path("b/two")))
		b.must(os.Link(b.path("a/one"), outside))
		b.settle()
		want := func(text string) {
			t.Helper()
			b.want(map[string]string{"a": "dir 0755", "b": "dir 0755", "a/one": "file 0644 " + text, "b/two": "file 0644 " + text})
		}
		want("1")
		b.write("a/one", "22")
		b.settle()
		want("22")
		b.must(os.WriteFile(outside, []byte("333"), 0o644))
		b.settle()
		want("333")
		// An entry for one of them makes it a file of its own.
		b.apply(b.file("/workspace/b/two", "mine", 0o644))
		b.want(map[string]string{"a": "dir 0755", "b": "dir 0755", "a/one": "file 0644 333", "b/two": "file 0644 mine"})
	})
}

// What only got another name is not read again.
func TestRenames(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		for i := range 50 {
			b.write(fmt.Sprintf("dir/sub%d/f%d", i%5, i), fmt.Sprint("content ", i))
		}
		b.write("x", "this is x")
		b.write("y", "that is y")
		quiet(b)
		read := b.ws.Stats().FilesRead
		b.must(os.Rename(b.path("dir/sub0"), b.path("moved")))
		b.must(os.Rename(b.path("dir"), b.path("other")))
		b.must(os.Mkdir(b.path("dir"), 0o755))
		b.must(os.Rename(b.path("other/sub1/f1"), b.path("dir/f1")))
		b.must(os.Rename(b.path("x"), b.path("t")))
		b.must(os.Rename(b.path("y"), b.path("x")))
		b.must(os.Rename(b.path("t"), b.path("y")))
		b.settle()
		b.same()
		if n := b.ws.Stats().FilesRead - read; n != 0 {
			t.Errorf("%d files were read", n)
		}
		// What is watched is watched under its new name.
		b.write("other/sub2/new", "x")
		b.write("moved/f0", "changed")
		b.settle()
		b.same()
	})
}

// quiet settles until nothing is to be read again.
func quiet(b *bench) {
	b.t.Helper()
	for last := int64(-1); ; {
		b.settle()
		n := b.ws.Stats().FilesRead
		if n == last {
			return
		}
		last = n
		waitTick(b)
	}
}

// waitTick waits until the clock of the file system is beyond what counts as just now.
func waitTick(b *bench) {
	b.t.Helper()
	probe := filepath.Join(filepath.Dir(b.dir), "probe")
	write := func() int64 {
		b.must(os.WriteFile(probe, []byte("x"), 0o644))
		info, err := os.Stat(probe)
		b.must(err)
		return info.ModTime().UnixNano()
	}
	for start := write(); write()-start < int64(disk.Granularity)*2; {
	}
}

// A renamed directory is one change, however much is in it.
func TestRenamedDirectory(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		for i := range 30 {
			b.write(fmt.Sprintf("a/sub%d/f%d", i%3, i), fmt.Sprint(i))
		}
		quiet(b)
		info, err := b.tree.Lstat(t.Context(), "/workspace/a/sub1/f1")
		b.must(err)
		rev := b.rev()
		b.must(os.MkdirAll(b.path("new/deep"), 0o755))
		b.must(os.Rename(b.path("a"), b.path("new/deep/b")))
		b.must(os.Remove(b.path("new/deep/b/sub1/f4")))
		b.write("new/deep/b/sub2/f5", "changed")
		b.write("new/deep/b/sub2/fresh", "fresh")
		b.must(os.Rename(b.path("new/deep/b/sub0"), b.path("c")))
		b.must(os.Chmod(b.path("new/deep/b"), 0o700))
		b.settle()
		b.same()
		now, err := b.tree.Lstat(t.Context(), "/workspace/new/deep/b/sub1/f1")
		if err != nil || now.Ino != info.Ino {
			t.Errorf("it is node %d, was %d; %v", now.Ino, info.Ino, err)
		}
		if n := b.rev() - rev; n > 10 {
			t.Errorf("it took %d revisions", n)
		}
		b.write("new/deep/b/sub1/f1", "watched")
		b.write("c/f0", "watched")
		b.settle()
		b.same()
		b.reopen()
		b.same()
	})
}

func TestRenameStorm(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 30 {
			b.write(fmt.Sprintf("d%d/e%d/f%d", i%5, i%3, i), fmt.Sprint(i))
		}
		for round := range 8 / fewer {
			for range 100 {
				from := fmt.Sprintf("d%d", rng.IntN(8))
				if rng.IntN(2) == 0 {
					from += fmt.Sprintf("/e%d", rng.IntN(4))
				}
				to := fmt.Sprintf("d%d", rng.IntN(8))
				if rng.IntN(2) == 0 {
					to += fmt.Sprintf("/e%d", rng.IntN(4))
				}
				_ = os.Rename(b.path(from), b.path(to)) // many of them cannot be
			}
			b.settle()
			b.same()
			if t.Failed() {
				t.Fatal("round", round)
			}
		}
	})
}

// Whatever was lost is found.
func TestOverflow(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("d/f", "1")
	b.settle()
	passes := b.ws.Stats().Passes
	b.settle()
	if n := b.ws.Stats().Passes; n != passes {
		t.Errorf("all of it was looked at %d times", n-passes)
	}
	b.write("d/f", "22")
	b.write("new/dir/g", "3")
	b.ws.Lose()
	b.settle()
	b.same()
	if n := b.ws.Stats().Passes; n != passes+1 {
		t.Errorf("all of it was looked at %d times, want once", n-passes)
	}
	b.write("new/dir/g", "44")
	b.settle()
	b.same()
	if n := b.ws.Stats().Passes; n != passes+1 {
		t.Error("what was made meanwhile is not watched")
	}
}

// More happens than anybody keeps count of.
func TestRealOverflow(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.must(os.MkdirAll(b.path("d"), 0o755))
	b.settle()
	passes := b.ws.Stats().Passes
	b.write("d/real", "x")
	for range 20_000 / fewer { // the kernel keeps 16,384 events by default
		f := b.path("d/f")
		b.must(os.Mkdir(f, 0o755))
		b.must(os.Remove(f))
	}
	for i := range 20 {
		b.write(fmt.Sprint("d/real", i), "x")
	}
	b.settle()
	b.same()
	t.Log("passes:", b.ws.Stats().Passes-passes)
}

// Where not all can be watched, all is looked at.
func TestWatchLimit(t *testing.T) {
	var log bytes.Buffer
	b := newBench(t, disk.Config{Watch: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b.write("d/f", "1")
	b.settle()
	if n := b.ws.Watched(); n != 2 {
		t.Errorf("%d directories are watched, want 2", n)
	}
	b.ws.FailWatch(fmt.Errorf("no more"))
	b.write("e/f", "1")
	b.settle()
	b.same()
	if n := b.ws.Watched(); n != -1 || strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("%d directories are watched; log:\n%s", n, log.String())
	}
	b.write("e/f", "22")
	b.settle()
	b.same()
}

// A directory that becomes a link while it is looked at does not lead anywhere.
func TestEnterLink(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		outside := t.TempDir()
		b.must(os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644))
		b.write("d/f", "1")
		var done atomic.Bool
		b.ws.Hook(func(op, path string) error {
			if op == "enter" && path == "d" && done.CompareAndSwap(false, true) {
				return errors.Join(os.Rename(b.path("d"), b.path("e")), os.Symlink(outside, b.path("d")))
			}
			return nil
		})
		b.settle()
		b.ws.Hook(nil)
		if !done.Load() {
			t.Error("nobody entered")
		}
		for path := range b.inTree() {
			if strings.Contains(path, "secret") {
				t.Errorf("the tree has %s", path)
			}
		}
		b.settle()
		b.want(map[string]string{"d": "link " + outside, "e": "dir 0755", "e/f": "file 0644 1"})
	})
}

// What may not be read stays as it was known.
func TestUnreadable(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "1")
		b.write("d/e/g", "2")
		quiet(b)
		b.write("d/f", "changed")
		b.write("d/e/g", "changed too")
		b.write("new/h", "unseen")
		b.must(os.Chmod(b.path("d/e/g"), 0o600))
		b.ws.Hook(func(op, path string) error {
			if op == "read" || op == "enter" && path == "new" {
				return unix.EACCES
			}
			return nil
		})
		b.settle()
		want := map[string]string{"d": "dir 0755", "d/e": "dir 0755", "d/f": "file 0644 (gone)", "d/e/g": "file 0644 (gone)", "new": "dir 0755"}
		if diff := cmp.Diff(want, b.inTree()); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		if n := b.ws.Stats().SkippedUnreadable; n < 3 {
			t.Errorf("%d counted", n)
		}
		b.ws.Hook(nil)
		b.settle()
		b.same()
	})
}

func TestDirectoryGone(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "1")
		b.settle()
		b.must(os.Rename(b.dir, b.dir+"-away"))
		rev := b.rev()
		if err := b.ws.Settle(t.Context()); !errors.Is(err, disk.ErrNoDirectory) {
			t.Errorf("settled: %v", err)
		}
		if _, err := b.ws.Apply(t.Context(), seq(nil), 0, nil); !errors.Is(err, disk.ErrNoDirectory) {
			t.Errorf("applied: %v", err)
		}
		b.told(rev)
		b.must(os.Mkdir(b.dir, 0o755)) // and nothing in it, as where something was mounted
		if err := b.ws.Settle(t.Context()); !errors.Is(err, disk.ErrNoDirectory) {
			t.Errorf("settled: %v", err)
		}
		if _, err := b.ws.Apply(t.Context(), seq(nil), 0, nil); !errors.Is(err, disk.ErrNoDirectory) {
			t.Errorf("applied: %v", err)
		}
		b.told(rev)
		b.write("other", "2")
		b.settle()
		b.want(map[string]string{"other": "file 0644 2"})
		b.write("other", "33")
		b.write("d/new", "4")
		b.settle()
		b.same()
		b.must(os.RemoveAll(b.dir))
		b.must(os.Rename(b.dir+"-away", b.dir))
		b.settle()
		b.want(map[string]string{"d": "dir 0755", "d/f": "file 0644 1"})
	})
}

func TestLongPaths(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		name := strings.Repeat("n", 255)
		b.write(name, "longest name")
		fd, err := unix.Open(b.dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
		b.must(err)
		// Deeper than any path reaches: 20 * 256 is more than 4,096.
		for range 20 {
			b.must(unix.Mkdirat(fd, name[:254], 0o755))
			next, err := unix.Openat(fd, name[:254], unix.O_DIRECTORY|unix.O_RDONLY, 0)
			b.must(err)
			b.must(unix.Close(fd))
			fd = next
		}
		b.must(unix.Close(fd))
		b.settle()
		got := b.inTree()
		if len(got) != 1+16 || got[name] != "file 0644 longest name" { // /workspace and 16 * 255 fit
			t.Errorf("the tree has %d paths", len(got))
		}
		if n := b.ws.Stats().SkippedNames; n == 0 {
			t.Error("nothing was counted")
		}
		b.apply(remove("/workspace/" + name[:254]))
		b.settle()
		if got := b.inTree(); len(got) != 1 {
			t.Errorf("the tree has %d paths after the removal", len(got))
		}
		if left, err := filepath.Glob(b.path(strings.Repeat(name[:254]+"/", 14) + name[:254])); err != nil || len(left) != 1 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

func TestClosed(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	ws := b.ws
	b.close()
	b.must(ws.Close())
	for name, err := range map[string]error{"settle": ws.Settle(t.Context()), "check": ws.Check(t.Context())} {
		if !errors.Is(err, disk.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ws.Apply(t.Context(), seq(nil), 0, nil); !errors.Is(err, disk.ErrClosed) {
		t.Errorf("apply: %v", err)
	}
	b.open()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	b.ws.Hook(func(string, string) error { cancel(why); return nil })
	b.write("f", "x")
	if err := b.ws.Settle(ctx); err == nil {
		t.Error("settled after the call had ended")
	}
	b.ws.Hook(nil)
}
