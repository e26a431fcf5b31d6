package disk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
)

// A file that is never quiet: the last reading counts until the next look.
func TestWrittenWhileRead(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("f", "0")
		var n atomic.Int64
		b.ws.Hook(func(op, path string) error {
			if op == "read" && path == "f" {
				return os.WriteFile(b.path("f"), []byte(strings.Repeat("x", int(n.Add(1))+1)), 0o644)
			}
			return nil
		})
		b.settle()
		b.ws.Hook(nil)
		if n.Load() != 3 {
			t.Errorf("read %d times, want 3", n.Load())
		}
		// What was read is consistent with itself: the size is that of the content.
		if got := b.inTree()["f"]; !strings.HasPrefix(got, "file 0644 x") {
			t.Errorf("in the tree: %q", got)
		}
		b.settle()
		b.want(map[string]string{"f": "file 0644 xxxx"})
	})
}

// A directory that is removed between its opening and its listing holds nothing up.
func TestRemovedWhileListed(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("d/f", "0")
		b.write("e", "0")
		b.ws.Hook(func(op, path string) error {
			if op == "list" && path == "d" {
				return os.RemoveAll(b.path("d"))
			}
			return nil
		})
		b.settle()
		b.ws.Hook(nil)
		b.settle()
		b.want(map[string]string{"e": "file 0644 0"})
	})
}

// The directory itself may be another one now: nothing is deleted.
func TestRootRemovedWhileListed(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("f", "0")
	b.settle()
	b.ws.Hook(func(op, path string) error {
		if op == "list" && path == "" {
			return os.RemoveAll(b.path(""))
		}
		return nil
	})
	if err := b.ws.Settle(t.Context()); err == nil {
		t.Error("a directory that is gone was settled")
	}
	b.ws.Hook(nil)
	if got := b.inTree(); len(got) != 1 {
		t.Errorf("in the tree: %v", got)
	}
	b.must(os.Mkdir(b.path(""), 0o755))
	b.write("f", "0")
}

// Two writes within one tick of the clock, of the same size, with the times set back: only
// reading it tells.
func TestRacyTimes(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		for i := range 60 / fewer {
			for _, text := range []string{"aaaa", "bbbb"} {
				text += fmt.Sprintf("%04d", i)
				b.must(os.WriteFile(b.path("f"), []byte(text), 0o644))
				b.must(os.Chtimes(b.path("f"), entryTime, entryTime))
				b.settle()
				if got, want := b.inTree()["f"], "file 0644 "+text; got != want {
					t.Fatalf("in the tree: %q, want %q", got, want)
				}
			}
		}
	})
}

// What is written through a mapping leaves no trace but that the file is closed.
func TestMapping(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("f", strings.Repeat("a", 8192))
	quiet(b)
	f, err := os.OpenFile(b.path("f"), os.O_RDWR, 0)
	b.must(err)
	m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	b.must(err)
	m[0] = 'b'
	b.must(f.Close())
	b.must(b.ws.Check(context.Background())) // reads the page as it is, and knows its time
	waitTick(b)
	quiet(b)
	m[1] = 'c' // the page is dirty: its time stays
	b.must(unix.Munmap(m))
	b.settle()
	b.same()
}

// mapped writes to a file through a mapping, so that nothing tells of it but the close. do
// runs between the write and the close.
func (b *bench) mapped(name string, do func()) {
	b.t.Helper()
	f, err := os.OpenFile(b.path(name), os.O_RDWR, 0)
	b.must(err)
	m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	b.must(err)
	b.must(f.Close())
	m[0]++ // the page is dirty, and its time is that of now
	quiet(b)
	m[1]++ // its time stays
	do()
	b.must(unix.Munmap(m)) // closes the file
}

// A file that was written through a mapping is read by the next settle that can, if one
// fails, looks at everything, or reads the index again; under whatever name the file has.
func TestMappingIsNotForgotten(t *testing.T) {
	for name, test := range map[string]struct{ before, after func(b *bench) }{
		"canceled": {nil, func(b *bench) { b.settleUntil("read", "f") }},
		"full": {func(b *bench) {
			b.write("other", "new")
			b.settleUntil("read", "other")
		}, nil},
		"file renamed":      {func(b *bench) { b.must(os.Rename(b.path("d/f"), b.path("d/g"))) }, nil},
		"then renamed":      {nil, func(b *bench) { b.must(os.Rename(b.path("d/f"), b.path("d/g"))) }},
		"directory renamed": {func(b *bench) { b.must(os.Rename(b.path("d"), b.path("e"))) }, nil},
		"rows refused": {nil, func(b *bench) {
			b.must(os.Rename(b.path("d"), b.path("e")))
			b.gate.full.Store(true)
			if err := b.ws.Settle(context.Background()); !errors.Is(err, errFull) {
				b.t.Errorf("settled with a full store: %v", err)
			}
			b.gate.full.Store(false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, disk.Config{Watch: true})
			b.write("d/f", strings.Repeat("a", 8192))
			b.mapped("d/f", func() {
				if test.before != nil {
					test.before(b)
				}
			})
			if test.after != nil {
				test.after(b)
			}
			b.settle()
			b.must(b.ws.Consistent(t.Context()))
			b.same()
		})
	}
}

// What was written through a mapping of a file is read under all of its names.
func TestMappingOfLinks(t *testing.T) {
	b := newBench(t, disk.Config{Watch: true})
	b.write("d/f", strings.Repeat("a", 8192))
	b.must(os.Mkdir(b.path("e"), 0o755))
	b.must(os.Link(b.path("d/f"), b.path("e/g")))
	b.mapped("d/f", func() {})
	b.settle()
	b.must(b.ws.Consistent(t.Context()))
	b.same()
}

// A change of one byte is one new chunk.
func TestOneByte(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		data := make([]byte, 5<<20+100)
		src := rand.NewChaCha8([32]byte{1})
		_, _ = src.Read(data)
		b.must(os.WriteFile(b.path("big"), data, 0o644))
		quiet(b)
		old, err := b.tree.Entry(t.Context(), "/workspace/big")
		b.must(err)
		f, err := os.OpenFile(b.path("big"), os.O_WRONLY, 0)
		b.must(err)
		_, err = f.WriteAt([]byte{data[3<<20] + 1}, 3<<20)
		b.must(errors.Join(err, f.Close()))
		b.settle()
		b.same()
		now, err := b.tree.Entry(t.Context(), "/workspace/big")
		b.must(err)
		differ := 0
		for i := range now.Parts {
			if now.Parts[i] != old.Parts[i] {
				differ++
			}
		}
		if differ != 1 || len(now.Parts) != 11 {
			t.Errorf("%d of %d parts differ", differ, len(now.Parts))
		}
	})
}
