package disk_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// on has something happen to the path p once, at a moment (see Hook) that must come.
func (b *bench) on(t *testing.T, op string, do func() error) {
	t.Helper()
	done := false
	b.ws.Hook(func(at, path string) error {
		if done || at != op || path != "p" {
			return nil
		}
		done = true
		return do()
	})
	t.Cleanup(func() {
		if !done {
			t.Errorf("%s was not reached", op)
		}
	})
}

// F1: what is written to an entry in the very moment in which it has come to its place is a
// change, however long we stand still then.
func TestF1WrittenWhenPlaced(t *testing.T) {
	for _, known := range []bool{false, true} {
		both(t, func(t *testing.T, b *bench) {
			if known {
				b.write("p", "old")
			}
			quiet(b)
			hour := time.Now().Add(-time.Hour)
			b.on(t, "placed", func() error {
				b.write("p", "mine!")
				return os.Chtimes(b.path("p"), hour, hour)
			})
			b.apply(b.file("/workspace/p", "entry", 0o644))
			b.ws.Hook(nil)
			b.reopen() // nobody tells of what was written before
			b.want(map[string]string{"p": "file 0644 mine!"})
			b.wantLost()
		})
	}
}

// F1: so is a file that comes to the place of a link at that moment.
func TestF1ReplacedWhenPlaced(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.must(os.Symlink("old", b.path("p")))
		quiet(b)
		hour := time.Now().Add(-time.Hour)
		b.on(t, "placed", func() error {
			b.write("q", "mine!")
			b.must(os.Chtimes(b.path("q"), hour, hour))
			return os.Rename(b.path("q"), b.path("p"))
		})
		b.apply(link("/workspace/p", "new"))
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{"p": "file 0644 mine!"})
		b.wantLost()
	})
}

// F1: an entry that is taken back again, since what it has replaced cannot be kept, may have
// been opened by a command meanwhile.
func TestF1OpenedBeforeTakenBack(t *testing.T) {
	for _, writes := range []bool{false, true} {
		both(t, func(t *testing.T, b *bench) {
			b.write("d/p", "old")
			quiet(b)
			var f *os.File
			b.ws.Hook(func(op, path string) error {
				switch {
				case op == "place" && path == "d/p":
					b.write("d/p", "unsettled")
				case op == "read" && strings.HasSuffix(path, "-p") && f == nil:
					var err error
					f, err = os.OpenFile(b.path("d/p"), os.O_WRONLY, 0)
					b.must(err)
					return unix.EIO
				}
				return nil
			})
			b.push(b.file("/workspace/d/p", "entry", 0o644))
			b.ws.Hook(nil)
			want := []string{"d/p file 0644 unsettled"}
			if writes {
				_, err := f.WriteString("by a command")
				b.must(err)
				want = append([]string{"d/p file 0644 by a command"}, want...)
			}
			b.must(f.Close())
			b.settle()
			b.settle()
			b.want(map[string]string{"d": "dir 0755", "d/p": "file 0644 entry"})
			b.wantLost(want...)
		})
	}
}

// F1: a file that somebody has open for writing as it is settled may change afterwards without
// a trace, until he closes it.
func TestF1OpenWhenSettled(t *testing.T) {
	for _, how := range []string{"replaced", "removed"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, disk.Config{Watch: true})
			b.write("p", "aaaaaaaa")
			f, err := os.OpenFile(b.path("p"), os.O_RDWR, 0)
			b.must(err)
			m, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			b.must(err)
			b.must(f.Close())
			copy(m, "bbbbbbbb")
			quiet(b)
			change := func() error {
				copy(m, "cccccccc") // the page is dirty already, and no time tells
				return syscall.Munmap(m)
			}
			want := map[string]string{}
			if how == "removed" {
				b.on(t, "clear", change)
				b.apply(remove("/workspace/p"))
				want["p"] = "file 0644 cccccccc"
			} else {
				b.on(t, "write", change)
				b.apply(b.file("/workspace/p", "entry", 0o644))
				want["p"] = "file 0644 entry"
			}
			b.ws.Hook(nil)
			b.settle()
			b.want(want)
			if how == "removed" {
				b.wantLost()
			} else {
				b.wantLost("p file 0644 cccccccc")
			}
		})
	}
}

// F1: that the store has the content of a version does not say that it is known: it was stored
// when it was to be kept, and that failed.
func TestF1StoredAndNotKept(t *testing.T) {
	for _, size := range []int{8, 5 << 20} {
		for _, restarts := range []bool{false, true} {
			b := newBench(t, disk.Config{Watch: true})
			at := func(c string) string { return strings.Repeat(c, size) }
			b.write("d/p", at("a"))
			f, err := os.OpenFile(b.path("d/p"), os.O_RDWR, 0)
			b.must(err)
			m, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			b.must(err)
			b.must(f.Close())
			copy(m, at("b"))
			quiet(b)
			b.apply(b.file("/workspace/d/p", "entry", 0o644))
			copy(m, at("c"))
			b.must(syscall.Munmap(m))
			for passes := range int64(4) { // one transaction more each time
				b.gate.passes.Store(passes)
				b.gate.full.Store(true)
				_ = b.ws.Settle(t.Context())
				b.gate.full.Store(false)
				if restarts {
					b.reopen()
				}
			}
			b.settle()
			b.want(map[string]string{"d": "dir 0755", "d/p": "file 0644 entry"})
			if got := b.lost(); len(got) != 1 || got[0] != "d/p file 0644 "+at("c") {
				t.Errorf("%d bytes, %v: %.40q is kept", size, restarts, got)
			}
		}
	}
}

// F1: a version that was put off keeps its path over a restart, and is not kept if nothing was
// written to it.
func TestF1PutOffOverARestart(t *testing.T) {
	for _, how := range []string{"replaced", "removed"} {
		for _, writes := range []string{"", "while it runs", "while it does not", "later"} {
			b := newBench(t, disk.Config{Watch: true})
			b.write("d/p", "old")
			quiet(b)
			f, err := os.OpenFile(b.path("d/p"), os.O_WRONLY, 0)
			b.must(err)
			want := map[string]string{}
			if how == "removed" {
				b.apply(remove("/workspace/d"))
			} else {
				b.apply(b.file("/workspace/d/p", "entry", 0o644))
				want = map[string]string{"d": "dir 0755", "d/p": "file 0644 entry"}
			}
			write := func(when string) {
				if writes == when {
					_, err := f.WriteString("by a command")
					b.must(err)
					b.must(f.Close())
				}
			}
			write("while it runs")
			b.close()
			write("while it does not")
			b.open()
			b.reopen()
			write("later")
			if writes == "" {
				b.must(f.Close())
			}
			b.settle()
			b.want(want)
			if writes == "" {
				b.wantLost()
			} else {
				b.wantLost("d/p file 0644 by a command")
			}
		}
	}
}

// F1: a wait for changes ends when a version that was put off is written no more.
func TestF1PutOffStirs(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("d/p", "old")
	quiet(b)
	f, err := os.OpenFile(b.path("d/p"), os.O_WRONLY, 0)
	b.must(err)
	b.apply(b.file("/workspace/d/p", "entry", 0o644))
	b.settle()
	stirred := b.ws.Stirred()
	_, err = f.WriteString("by a command")
	b.must(err)
	b.must(f.Close())
	<-stirred
	b.settle()
	b.wantLost("d/p file 0644 by a command")
}

// C-053: a directory that was opened up to be emptied, and stays, has its mode again also if
// the process dies meanwhile.
func TestC053EmptiedAndKilled(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	for _, mode := range []os.FileMode{0o500, 0o300, 0o100, 0} {
		both(t, func(t *testing.T, b *bench) {
			b.write("d/e/a", "1")
			b.write("d/e/b", "1")
			quiet(b)
			b.must(os.Chmod(b.path("d/e"), mode))
			b.settle()
			b.must(os.Chmod(b.path("d"), mode))
			b.settle()
			died := errors.New("the process dies here")
			b.ws.Hook(func(op, path string) error {
				if info, err := os.Lstat(b.path("d/e")); op == "clear" && strings.HasPrefix(path, "d/e/") && err == nil && info.Mode().Perm()&0o700 == 0o700 {
					panic(died)
				}
				return nil
			})
			func() {
				defer func() {
					if recover() == nil {
						t.Error("it was not emptied")
					}
				}()
				_, _ = b.ws.Apply(t.Context(), seq([]tree.Entry{remove("/workspace/d")}), tree.SkipSame, nil)
			}()
			b.ws.Hook(nil)
			b.must(os.WriteFile(b.path("d/e/new"), []byte("2"), 0o644))
			b.reopen()
			b.modes(map[string]os.FileMode{"d": mode})
			b.must(os.Chmod(b.path("d"), 0o755))
			b.modes(map[string]os.FileMode{"d/e": mode})
			b.must(os.Chmod(b.path("d/e"), 0o755))
			b.settle()
			b.want(map[string]string{"d": "dir 0755", "d/e": "dir 0755", "d/e/new": "file 0644 2"})
		})
	}
}

// F1: a program looks a path up before an entry takes its place, and opens the file after the
// check for writers. It writes to the removed file, and that version is kept.
func TestF1OpenedWhenRemoved(t *testing.T) {
	for _, how := range []string{"replaced", "removed", "kept"} {
		for _, writes := range []string{"", "at once", "later", "at the end"} {
			t.Run(how+" "+writes, func(t *testing.T) {
				b := newBench(t, disk.Config{Watch: true})
				b.write("d/p", "old")
				b.write("d/q", "other")
				quiet(b)
				var f *os.File
				b.ws.Hook(func(op, path string) error {
					switch {
					case op == "place" && path == "d/p" && how == "kept":
						b.write("d/p", "unsettled")
					case op == "retire" && path == "d/p":
						list, err := filepath.Glob(b.path("d/.wsd-out-*-p"))
						b.must(err)
						f, err = os.OpenFile(list[0], os.O_WRONLY, 0)
						b.must(err)
						if writes == "at once" {
							_, err = f.WriteString("by a command")
							b.must(errors.Join(err, f.Close()))
						}
					}
					return nil
				})
				var want []string
				if how == "kept" {
					want = append(want, "d/p file 0644 unsettled")
				}
				if writes != "" {
					want = append(want, "d/p file 0644 by a command")
				}
				disk := map[string]string{"d": "dir 0755", "d/q": "file 0644 other"}
				if how == "removed" {
					b.apply(remove("/workspace/d/p"))
				} else {
					b.apply(b.file("/workspace/d/p", "entry", 0o644))
					disk["d/p"] = "file 0644 entry"
				}
				b.ws.Hook(nil)
				if f == nil {
					t.Fatal("it was not removed")
				}
				if writes == "later" {
					quiet(b)
				}
				if writes == "later" || writes == "at the end" {
					_, err := f.WriteString("by a command")
					b.must(errors.Join(err, f.Close()))
				}
				if writes == "" {
					b.must(f.Close())
				}
				b.reopen()
				b.want(disk)
				b.wantLost(want...)
			})
		}
	}
}

// F1: the same for one of many files of a directory that is removed, which several goroutines share.
func TestF1OpenedWhenManyRemoved(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true, Parallel: 2})
	for i := range 40 {
		b.write(fmt.Sprintf("d/%02d/p", i), "old")
		b.write(fmt.Sprintf("d/%02d/q", i), "other")
	}
	quiet(b)
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("d/%02d/p file 0644 by a command", i))
	}
	b.ws.Hook(func(op, path string) error {
		if op != "retire" || filepath.Base(path) != "p" {
			return nil
		}
		list, err := filepath.Glob(b.path(filepath.Dir(path)) + "/.wsd-out-*-p")
		if err != nil || len(list) != 1 {
			t.Errorf("the names of what is removed: %q, %v", list, err)
			return nil
		}
		f, err := os.OpenFile(list[0], os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("by a command")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
		return nil
	})
	b.apply(remove("/workspace/d"))
	b.ws.Hook(nil)
	b.reopen()
	b.want(map[string]string{})
	got := b.lost()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("kept: %q, want %q", got, want)
	}
}

// An object that takes a file's place is moved once to the directory, under the name that the file gets
// when the two are exchanged. If the process dies before that, the next start brings the entry.
func TestF1DiedBeforeExchange(t *testing.T) {
	// The other name of a long one is cut, and tells no start what has it.
	for name, ours := range map[string]string{"p": "/.wsd-out-", strings.Repeat("p", 250): "/.wsd-tmp-"} {
		for size, content := range map[string]string{"one part": "entry", "parts": strings.Repeat("entry", 300_000)} {
			t.Run(fmt.Sprintf("%d letters, %s", len(name), size), func(t *testing.T) {
				b := newBench(t, disk.Config{Watch: true})
				b.write("d/"+name, "old")
				quiet(b)
				b.ws.Hook(func(op, _ string) error {
					if op != "place" {
						return nil
					}
					if list, err := filepath.Glob(b.path("d/.wsd-*")); err != nil || len(list) != 1 || !strings.Contains(list[0], ours) {
						t.Errorf("names of ours: %q, %v", list, err)
					}
					b.gate.full.Store(true) // nothing of it is recorded
					runtime.Goexit()
					return nil
				})
				b.push(b.file("/workspace/d/"+name, content, 0o644))
				b.ws.Hook(nil)
				b.gate.full.Store(false)
				b.reopen()
				if got, err := os.ReadFile(b.path("d/" + name)); err != nil || string(got) != content {
					t.Errorf("there are %d bytes, %v", len(got), err)
				}
				b.same()
				b.wantLost()
			})
		}
	}
}

// What was removed a moment ago makes room for an entry that does not fit otherwise.
func TestF1RetiredMakesRoom(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true, Parallel: 1})
	b.ws.Apart() // else nothing is written
	b.ws.Grace(time.Hour)
	b.write("p", strings.Repeat("x", 60))
	quiet(b)
	writes := 0
	b.ws.Hook(func(op, path string) error {
		switch {
		case op == "retire" && path == "p":
			list, err := filepath.Glob(b.path(".wsd-out-*-p"))
			b.must(err)
			b.must(os.WriteFile(list[0], []byte("by a command"), 0o644))
		case op == "make" && path == "q":
			if writes++; writes == 1 {
				return unix.ENOSPC
			}
		}
		return nil
	})
	b.apply(remove("/workspace/p"))
	b.ws.Room(10)
	b.apply(b.file("/workspace/q", strings.Repeat("y", 40), 0o644))
	b.ws.Hook(nil)
	if writes != 2 {
		t.Errorf("it was written %d times", writes)
	}
	b.want(map[string]string{"q": "file 0644 " + strings.Repeat("y", 40)})
	b.wantLost("p file 0644 by a command")
}

// What was removed does not stay open where it would then have another name in its directory,
// nor is more of it open than the limits say.
func TestF1RetiredAreFew(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.ws.Grace(time.Hour)
	batch := func() []tree.Entry {
		for i := range 100 {
			b.write(fmt.Sprintf("d/%d", i), "text")
		}
		quiet(b)
		return []tree.Entry{remove("/workspace/d")}
	}
	b.apply(batch()...)
	if n := b.ws.Retired(); n == 0 || n > 64 {
		t.Errorf("%d files are open", n)
	}
	b.reopen()
	b.ws.Grace(time.Hour)
	b.ws.Distrust(errors.New("it is on NFS"))
	b.apply(batch()...)
	if n := b.ws.Retired(); n != 0 {
		t.Errorf("%d files are open on a file system of others", n)
	}
	b.want(map[string]string{})
}

// What arrived and became a file is nowhere else, also if the process died before it could say so.
func TestF1DiedWhenPlaced(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, changes := range []bool{false, true} {
			both(t, func(t *testing.T, b *bench) {
				if known {
					b.write("p", "old")
				}
				quiet(b)
				b.on(t, "placed", func() error { // nothing of it is recorded
					b.gate.full.Store(true)
					return errFull
				})
				b.push(b.file("/workspace/p", "entry", 0o644))
				b.gate.full.Store(false)
				b.ws.Hook(nil)
				want := "file 0644 entry"
				if changes {
					b.write("p", "changed") // over the entry, which it had
					want = "file 0644 changed"
				}
				b.reopen()
				quiet(b)
				b.want(map[string]string{"p": want})
				b.check()
				b.write("p", "later")
				quiet(b)
				b.check()
				hash := tree.Sum([]byte("entry"))
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
}

// What arrived is found where a crash has left it, also if its directory has another name now.
func TestF1DiedAndDirectoryRenamed(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/p", "old")
		quiet(b)
		b.ws.Hook(func(op, path string) error {
			if op != "place" || path != "d/p" {
				return nil
			}
			b.gate.full.Store(true)
			// The process dies here: nothing is cleaned up after it.
			list, err := filepath.Glob(b.path("d/.wsd-tmp-*"))
			b.must(err)
			b.must(os.Rename(b.path("d"), b.path("e")))
			b.must(os.MkdirAll(b.path("saved"), 0o755))
			for _, name := range list {
				b.must(os.Link(b.path("e/"+filepath.Base(name)), b.path("saved/"+filepath.Base(name))))
			}
			return errFull
		})
		b.push(b.file("/workspace/d/p", "entry", 0o644))
		b.gate.full.Store(false)
		b.ws.Hook(nil)
		b.close()
		list, err := filepath.Glob(b.path("saved/.wsd-tmp-*"))
		b.must(err)
		for _, name := range list {
			_ = os.Rename(name, b.path("e/"+filepath.Base(name)))
		}
		b.must(os.RemoveAll(b.path("saved")))
		objects, err := filepath.Glob(b.dir + ".objects/*")
		b.must(err)
		for _, name := range objects { // it had become the file
			if text, err := os.ReadFile(name); err == nil && string(text) == "entry" && len(list) > 0 {
				b.must(os.Remove(name))
			}
		}
		b.open()
		b.settle()
		b.settle()
		b.want(map[string]string{"d": "dir 0755", "d/p": "file 0644 entry", "e": "dir 0755", "e/p": "file 0644 old"})
		b.wantLost()
	})
}

// A wait for changes ends when the directory itself is renamed or removed.
func TestRenamedStirs(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.settle()
	dir := b.path("")
	stirred := b.ws.Stirred()
	b.must(os.Rename(dir, dir+".old"))
	<-stirred
	b.must(os.Rename(dir+".old", dir))
	b.settle()
	stirred = b.ws.Stirred()
	b.must(os.Remove(dir))
	<-stirred
	b.must(os.Mkdir(dir, 0o755))
}
