package disk_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A batch that the file system has no room for is refused as a whole: brought to the tree it
// would keep the workspace from ever being in step again. What goes makes room first, what is
// replaced only afterwards.
func TestNoRoom(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	tests := map[string]struct {
		room  int64
		batch func(b *bench) []tree.Entry
		ok    bool
	}{
		"enough":            {10, func(b *bench) []tree.Entry { return []tree.Entry{b.file("/workspace/n", text(10), 0o644)} }, true},
		"too large":         {9, func(b *bench) []tree.Entry { return []tree.Entry{b.file("/workspace/n", text(10), 0o644)} }, false},
		"not known":         {-1, func(b *bench) []tree.Entry { return []tree.Entry{b.file("/workspace/n", text(10), 0o644)} }, true},
		"outside the mount": {0, func(b *bench) []tree.Entry { return []tree.Entry{b.file("/other/n", text(10), 0o644)} }, true},
		"two": {15, func(b *bench) []tree.Entry {
			return []tree.Entry{b.file("/workspace/n", text(10), 0o644), b.file("/workspace/o", text(10)+"y", 0o644)}
		}, false},
		"two for one path": {10, func(b *bench) []tree.Entry {
			return []tree.Entry{b.file("/workspace/n", text(10), 0o644), b.file("/workspace/n", text(9), 0o644)}
		}, true},
		"a directory goes": {0, func(b *bench) []tree.Entry {
			return []tree.Entry{b.file("/workspace/a", text(200), 0o644), remove("/workspace/d")}
		}, true},
		"a directory goes, and what was in it": {0, func(b *bench) []tree.Entry {
			return []tree.Entry{remove("/workspace/d/f"), b.file("/workspace/a", text(201), 0o644), remove("/workspace/d")}
		}, false},
		"a file in the place of a directory": {0, func(b *bench) []tree.Entry { return []tree.Entry{b.file("/workspace/d", text(200), 0o644)} }, true},
		"all goes": {0, func(b *bench) []tree.Entry {
			return []tree.Entry{remove("/workspace"), b.file("/workspace/a", text(300), 0o644)}
		}, true},
		"replaced beside what was there": {99, func(b *bench) []tree.Entry { return []tree.Entry{b.file("/workspace/f", text(99)+"y", 0o644)} }, false},
		"replaced, then another": {100, func(b *bench) []tree.Entry {
			return []tree.Entry{b.file("/workspace/f", text(99)+"y", 0o644), b.file("/workspace/g", text(100)+"z", 0o644)}
		}, false},
		"a smaller one, then another": {100, func(b *bench) []tree.Entry {
			return []tree.Entry{b.file("/workspace/f", "small", 0o644), b.file("/workspace/g", text(100)+"z", 0o644)}
		}, true},
		"a mode": {0, func(b *bench) []tree.Entry { return []tree.Entry{b.file("/workspace/f", text(100), 0o600)} }, true},
		"empty": {0, func(b *bench) []tree.Entry {
			return []tree.Entry{b.file("/workspace/n", "", 0o600), folder("/workspace/m", 0o755)}
		}, true},
	}
	for name, tt := range tests {
		for _, small := range []bool{false, true} {
			if small && (name == "two for one path" || name == "a mode") {
				continue // what is not kept of a batch is judged by what the tree has
			}
			t.Run(name, func(t *testing.T) {
				b := newBench(t, disk.Config{})
				b.ws.Apart() // content that is there needs no room
				b.write("f", text(100))
				b.write("d/f", text(100))
				b.write("d/e/f", text(100))
				b.settle()
				if small {
					b.ws.Shrink()
				}
				before, rev := onDisk(t, b.dir), b.rev()
				batch := tt.batch(b)
				b.ws.Room(tt.room)
				_, err := b.ws.Apply(t.Context(), seq(batch), tree.SkipSame, nil)
				if tt.ok {
					b.must(err)
					b.same()
					return
				}
				if _, pending := errors.AsType[*changes.PendingError](err); pending || !errors.Is(err, unix.ENOSPC) || changes.Code(err) != "ENOSPC" || changes.Path(err) == "" {
					t.Fatalf("refused with %v", err)
				}
				if b.rev() != rev {
					t.Error("the tree has changed")
				}
				b.want(before)
				b.apply(remove("/workspace/d"))
			})
		}
	}
}

// A batch that is refused names all files for which there is no room beside those that fit.
func TestL1NoRoomNamesAll(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.ws.Apart()
	b.write("r", "123")
	b.settle()
	before := onDisk(t, b.dir)
	batch := []tree.Entry{
		b.file("/workspace/a", "12345678901", 0o644), b.file("/workspace/b", "1234", 0o644), b.file("/workspace/c", "1234567", 0o644),
		b.file("/workspace/d", "12345", 0o644), b.file("/workspace/r", "abcde", 0o644), b.file("/workspace/s", "1", 0o644),
	}
	b.ws.Room(10)
	_, err := b.ws.Apply(t.Context(), seq(batch), tree.SkipSame, nil)
	want := []string{"/workspace/a", "/workspace/c", "/workspace/r"}
	if got := changes.Paths(err); !slices.Equal(got, want) || changes.Code(err) != changes.CodeNoRoom {
		t.Fatalf("refused are %q, want %q: %v", got, want, err)
	}
	b.want(before)
	b.apply(batch[1], batch[3], batch[5])
	b.ws.Room(-1)
	b.same()
}

// Of content that files have and that is to be copied nothing is written any more once no more than as much did
// not fit, unless blocks are shared. All that does not fit is named; a smaller copy is made.
func TestL1NoRoomForCopiesIsFoundOnce(t *testing.T) {
	const copies = 20
	for _, tt := range []struct {
		name    string
		windows int
		reason  error
	}{
		{"in the transaction", 1, unix.ENOSPC}, {"before it", 5, unix.ENOSPC}, {"beyond a quota", 1, unix.EDQUOT}, {"as one file", 5, unix.EFBIG},
	} {
		t.Run(tt.name, func(t *testing.T) {
			windows := tt.windows
			b := newBench(t, disk.Config{})
			text := func(i int) string { return strings.Repeat(string(rune('a'+i)), windows*tree.ChunkSize) + fmt.Sprint(i) }
			shared := strings.Repeat("0", (windows+1)*tree.ChunkSize)
			b.apply(b.file("/workspace/big", text(0), 0o644), b.file("/workspace/bigger", text(1)+"more", 0o644),
				b.file("/workspace/shared", shared, 0o644), b.file("/workspace/small", "small", 0o644))
			fs := new(sharing)
			b.ws.Reflink(func(dst, src int) error {
				var st unix.Stat_t
				if err := unix.Fstat(src, &st); err != nil || st.Size != int64(len(shared)) {
					return unix.EPERM
				}
				return fs.reflink(dst, src)
			})
			before := onDisk(t, b.dir)
			var batch []tree.Entry
			var want []string
			for i := range copies {
				path := fmt.Sprintf("/workspace/z%02d", i)
				if i%2 == 0 {
					batch = append(batch, known(path, text(0)))
				} else {
					batch = append(batch, known(path, text(1)+"more"))
				}
				want = append(want, path)
			}
			fit := []tree.Entry{known("/workspace/shared2", shared), known("/workspace/small2", "small")}
			written := map[string]int{}
			b.ws.Hook(func(op, path string) error {
				if op == "copy" {
					if written[path]++; written[path] > windows { // as much as there is room
						return tt.reason
					}
				}
				return nil
			})
			_, err := b.ws.Apply(t.Context(), seq(slices.Concat(batch, fit)), tree.SkipSame, nil)
			got := changes.Paths(err)
			slices.Sort(got)
			if !slices.Equal(got, want) || changes.Code(err) != changes.CodeNoRoom {
				t.Fatalf("refused are %q, want %q: %v", got, want, err)
			}
			total := 0
			for _, n := range written {
				total += n
			}
			if total > windows+2 { // those of one that does not fit, and the small one
				t.Errorf("%d windows were written: %v", total, written)
			}
			b.want(before)
			b.noObjects()
			clear(written)
			b.apply(fit...)
			if got := fs.calls.Load(); got == 0 {
				t.Error("nothing was cloned")
			}
			b.ws.Hook(nil)
			b.apply(batch...)
			b.same()
		})
	}
}
