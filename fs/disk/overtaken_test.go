package disk_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// wantLost wants the versions that are kept, and nothing under names of ours.
func (b *bench) wantLost(want ...string) {
	b.t.Helper()
	if got := b.lost(); !slices.Equal(got, want) {
		b.t.Errorf("kept: %q, want %q", got, want)
	}
	for path := range onDisk(b.t, b.dir) {
		if strings.Contains(path, ".wsd-") {
			b.t.Errorf("left: %s", path)
		}
	}
}

// F1: a link that no tree can have is not in the way of an entry, and holds up nothing else.
func TestF1LinkThatNoTreeCanHave(t *testing.T) {
	for _, target := range []string{"   ", " "} {
		both(t, func(t *testing.T, b *bench) {
			b.must(os.Symlink(target, b.path("p")))
			b.settle()
			b.apply(b.file("/workspace/p", "entry", 0o644))
			b.close()
			b.must(os.Symlink(target, b.path(".wsd-out-0123456789abcded-q")))
			b.open()
			b.write("other", "news")
			b.settle()
			if got := b.inTree(); got["p"] != "file 0644 entry" || got["other"] != "file 0644 news" {
				t.Errorf("the tree has %v", got)
			}
			links := 0
			for path, what := range onDisk(t, b.dir) {
				if what == "link "+target && strings.Contains(path, ".conflict-") {
					links++
					b.must(os.Remove(b.path(path)))
				}
			}
			if links != 2 {
				t.Errorf("%d of the links are there: %v", links, onDisk(t, b.dir))
			}
		})
	}
}

// Names of one file do not hold each other up when they go, and none of them is taken for
// another version.
func TestLinkedNamesGoTogether(t *testing.T) {
	for _, how := range []string{"removed", "with the directory", "replaced", "made a file"} {
		both(t, func(t *testing.T, b *bench) {
			b.write("d/p", "text")
			b.must(os.Link(b.path("d/p"), b.path("d/q")))
			quiet(b)
			want := map[string]string{"d": "dir 0755"}
			switch how {
			case "removed":
				b.apply(remove("/workspace/d/p"), remove("/workspace/d/q"))
			case "with the directory":
				b.apply(remove("/workspace/d"))
				want = map[string]string{}
			case "replaced":
				b.apply(b.file("/workspace/d/p", "one", 0o644), b.file("/workspace/d/q", "two", 0o644))
				want["d/p"], want["d/q"] = "file 0644 one", "file 0644 two"
			default:
				b.apply(b.file("/workspace/d", "entry", 0o644))
				want = map[string]string{"d": "file 0644 entry"}
			}
			b.settle()
			b.want(want)
			b.wantLost()
		})
	}
}

// F1: what is written through a mapping after the last look is kept once the mapping is gone.
func TestF1Mapping(t *testing.T) {
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
			copy(m, "cccccccc") // the page is dirty already, and no time tells
			want := map[string]string{}
			if how == "removed" {
				b.apply(remove("/workspace/p"))
			} else {
				b.apply(b.file("/workspace/p", "entry", 0o644))
				want["p"] = "file 0644 entry"
			}
			b.must(syscall.Munmap(m))
			b.settle()
			b.want(want)
			b.wantLost("p file 0644 cccccccc")
		})
	}
}

// F1: a version is looked at once more after the entry was written, which may take long.
func TestF1TimesSetBack(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("p", "aaaa")
		hour := time.Now().Add(-time.Hour)
		b.must(os.Chtimes(b.path("p"), hour, hour))
		quiet(b)
		b.ws.Hook(func(op, path string) error {
			if op == "write" && path == "p" {
				b.write("p", "bbbb")
				b.must(os.Chtimes(b.path("p"), hour, hour))
			}
			return nil
		})
		b.apply(b.file("/workspace/p", "entry", 0o644))
		b.ws.Hook(nil)
		b.wantLost("p file 0644 bbbb")
	})
}

// A version that a crash has left is kept also if other files have its windows between them;
// a link of ours that it has left is not.
func TestF1LeftByACrash(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		x, y := strings.Repeat("x", tree.ChunkSize), strings.Repeat("y", tree.ChunkSize)
		b.write("d/p", x+y)
		b.must(os.Symlink("entry", b.path("l")))
		b.settle()
		b.close()
		b.write("d/.wsd-out-0123456789abcdef-p", y+x)
		b.must(os.Symlink("entry", b.path(".wsd-out-0123456789abcded-l")))
		b.open()
		b.settle()
		b.wantLost("d/p file 0644 " + y + x)
	})
}

// What cannot be kept now, when it is found or put off, is kept later, and holds up nothing.
func TestF1KeptLater(t *testing.T) {
	t.Run("left by a crash", func(t *testing.T) {
		b := newBench(t, disk.Config{Watch: true})
		b.write("d/p", "settled")
		quiet(b)
		b.close()
		b.write("d/.wsd-out-0123456789abcdef-p", "by a command")
		b.openStore()
		b.gate.passes.Store(2) // what is known of the directory, and a mistake
		b.gate.full.Store(true)
		cfg := b.cfg
		cfg.Dir, cfg.Forest, cfg.Tree, cfg.Objects = b.dir, b.forest, b.tree, b.objects
		ws, err := disk.Open(t.Context(), cfg)
		b.gate.full.Store(false)
		b.must(err)
		b.ws = ws
		if got := b.lost(); len(got) > 0 {
			t.Errorf("kept on a full disk: %q", got)
		}
		b.settle()
		b.wantLost("d/p file 0644 by a command")
	})
	t.Run("put off", func(t *testing.T) {
		b := newBench(t, disk.Config{Watch: true})
		b.write("p", "old")
		quiet(b)
		f, err := os.OpenFile(b.path("p"), os.O_WRONLY, 0)
		b.must(err)
		b.apply(b.file("/workspace/p", "entry", 0o644))
		_, err = f.WriteString("by a command")
		b.must(err)
		b.must(f.Close())
		b.ws.Hook(func(op, path string) error {
			if op == "read" && strings.HasPrefix(path, ".wsd-out-") {
				return unix.EIO
			}
			return nil
		})
		b.write("other", "news")
		b.settle()
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{"p": "file 0644 entry", "other": "file 0644 news"})
		b.wantLost("p file 0644 by a command")
	})
}

// F1: without a free descriptor nobody can tell whether a file is open for writing: it waits.
func TestF1NoDescriptor(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("p", "old")
	quiet(b)
	f, err := os.OpenFile(b.path("p"), os.O_WRONLY, 0)
	b.must(err)
	b.ws.Hook(func(op, _ string) error {
		if op == "busy" {
			return unix.EMFILE
		}
		return nil
	})
	b.apply(b.file("/workspace/p", "entry", 0o644))
	b.ws.Hook(nil)
	_, err = f.WriteString("by a command")
	b.must(err)
	b.must(f.Close())
	b.settle()
	b.want(map[string]string{"p": "file 0644 entry"})
	b.wantLost("p file 0644 by a command")
}
