package disk_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// parts settles in parts of so many paths. It returns what was new in the tree at each time.
func (b *bench) inParts(paths int, bytes int64, some func() bool) []string {
	b.t.Helper()
	var told []string
	rev := b.rev()
	b.must(b.ws.SettleBy(context.Background(), paths, bytes, func() bool {
		told = append(told, strings.Join(b.changed(rev), " "))
		rev = b.rev()
		return some == nil || some()
	}))
	return told
}

func (b *bench) wantParts(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("told of %q, want %q", got, want)
	}
	b.same()
}

// New files come into the tree in parts, those in the directory itself first, and each part is told
// of but the last one. Where something else has changed, or cannot be read, nothing is told.
func TestSettlesInParts(t *testing.T) {
	b := newBench(t, disk.Config{})
	for _, name := range []string{"a/b/one", "a/two", "c/three", "z"} {
		b.write(name, name)
	}
	b.wantParts(b.inParts(3, 1<<20, nil), "+a +a/b +z", "+a/b/one +a/two +c")

	b.write("c/five", "five")
	b.write("c/six", "six")
	b.must(os.Remove(b.path("a/two")))
	b.wantParts(b.inParts(1, 1<<20, nil))

	b.write("c/five", "5")
	b.must(os.Remove(b.path("z")))
	b.must(os.Mkdir(b.path("z"), 0o755))
	b.wantParts(b.inParts(1, 1<<20, nil))
}

func TestSettlesChangesInParts(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("z", "z")
	b.settle()
	b.write("z", "another z")
	b.write("y", "y")
	b.write("c/four", "four")
	b.wantParts(b.inParts(1, 1<<20, nil), "+y", "+z", "+c")
}

// A part has no more bytes than was said, and always a path.
func TestPartsByBytes(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("a", "12345678")
	b.write("b", "1234567890")
	b.write("c", "1234")
	b.write("d", "1234")
	b.write("e", "1")
	b.wantParts(b.inParts(100, 8, nil), "+a", "+b", "+c +d")
}

// A caller that has had enough is not called any more.
func TestEnoughParts(t *testing.T) {
	b := newBench(t, disk.Config{})
	for _, name := range []string{"a", "b", "c", "d"} {
		b.write(name, name)
	}
	n := 2
	b.wantParts(b.inParts(1, 1, func() bool { n--; return n > 0 }), "+a", "+b")
}

func TestNoPartsBehindWhatCannotBeRead(t *testing.T) {
	b := newBench(t, disk.Config{})
	for _, name := range []string{"a", "b", "c", "d"} {
		b.write(name, name)
	}
	b.ws.Hook(func(op, path string) error {
		if op == "read" && path == "b" {
			return unix.EACCES
		}
		return nil
	})
	if got := b.inParts(1, 1, nil); !slices.Equal(got, []string{"+a"}) {
		t.Errorf("told of %q", got)
	}
	b.wantSkipped("unreadable b permission denied")
	b.ws.Hook(nil)
}

// Content that was read for a part is at hand until it was asked for, whatever becomes of the file.
func TestPartsAreAtHand(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("a", "one")
	b.write("b", "two")
	b.inParts(1, 1, func() bool {
		b.must(os.Remove(b.path("a")))
		h := tree.Sum([]byte("one"))
		if got, err := b.forest.Chunk(context.Background(), h, nil); err != nil || string(got) != "one" {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := b.forest.Chunk(context.Background(), h, nil); err == nil {
			t.Errorf("got %q again", got)
		}
		return true
	})
	b.must(os.Remove(b.path("b")))
	h := tree.Sum([]byte("two"))
	if got, err := b.forest.Chunk(context.Background(), h, []byte("one and ")); err != nil || string(got) != "one and two" {
		t.Errorf("got %q, %v", got, err)
	}
	b.settle()
	b.same()
}

// A file that changes each time that it is read is kept for itself, since nobody may ask for it before it has
// changed again.
func TestRestlessFileInParts(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("a", "")
	text := ""
	b.ws.Hook(func(op, path string) error {
		if op == "read" && path == "a" {
			text += "+"
			return os.WriteFile(b.path("a"), []byte(text), 0o644)
		}
		return nil
	})
	b.inParts(1, 1, nil)
	b.ws.Hook(nil)
	e, err := b.tree.Entry(context.Background(), "/workspace/a")
	b.must(err)
	b.must(os.Remove(b.path("a")))
	for _, p := range e.Parts {
		if _, err := b.forest.Chunk(context.Background(), p.Hash, nil); err != nil {
			t.Error(err)
		}
	}
	b.settle()
}

// A workspace that was opened unsettled has in its tree what it had, until it is settled.
func TestOpensUnsettled(t *testing.T) {
	b := newBench(t, disk.Config{Unsettled: true})
	b.write("a", "a")
	b.reopen()
	if got := b.inTree(); len(got) > 0 {
		t.Errorf("the tree has %v", got)
	}
	b.settle()
	b.same()
	if got := b.ws.Stats().Passes; got != 1 {
		t.Errorf("looked at everything %d times", got)
	}
}
