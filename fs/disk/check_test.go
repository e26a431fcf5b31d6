package disk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// What somebody changes in the tree behind the workspace's back is found.
func TestCheckFinds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *tree.Edit, b *bench) error
		undo   func(e *tree.Edit, b *bench) error
		want   string
	}{
		"a path more": {
			func(e *tree.Edit, _ *bench) error { return e.Mkdir("/workspace/more", 0o755, false) },
			func(e *tree.Edit, _ *bench) error { return e.Remove("/workspace/more", false) },
			`"more": only the tree has it`,
		},
		"a path less": {
			func(e *tree.Edit, _ *bench) error { return e.Rename("/workspace/f", "/f") },
			func(e *tree.Edit, _ *bench) error { return e.Rename("/f", "/workspace/f") },
			`"f": only the index has it`,
		},
		"a mode": {
			func(e *tree.Edit, _ *bench) error { return e.Chmod("/workspace/d", 0o700) },
			func(e *tree.Edit, _ *bench) error { return e.Chmod("/workspace/d", 0o755) },
			`"d": mode 0755, in the tree 0700`,
		},
		"content": {
			func(e *tree.Edit, b *bench) error {
				entry := b.fileIn(e, "/workspace/f", "other")
				_, err := e.Apply(&entry, 0)
				return err
			},
			func(e *tree.Edit, b *bench) error {
				entry := b.fileIn(e, "/workspace/f", "right")
				_, err := e.Apply(&entry, 0)
				return err
			},
			`"f": the content is not the tree's`,
		},
		"a size": {
			func(e *tree.Edit, b *bench) error {
				entry := b.fileIn(e, "/workspace/f", "longer than it is")
				_, err := e.Apply(&entry, 0)
				return err
			},
			func(e *tree.Edit, b *bench) error {
				entry := b.fileIn(e, "/workspace/f", "right")
				_, err := e.Apply(&entry, 0)
				return err
			},
			`"f": 5 bytes, in the tree 17`,
		},
		"a link": {
			func(e *tree.Edit, _ *bench) error {
				entry := link("/workspace/l", "elsewhere")
				_, err := e.Apply(&entry, 0)
				return err
			},
			func(e *tree.Edit, _ *bench) error {
				entry := link("/workspace/l", "f")
				_, err := e.Apply(&entry, 0)
				return err
			},
			`"l": it leads to "f", in the tree to "elsewhere"`,
		},
		"a kind": {
			func(e *tree.Edit, _ *bench) error {
				entry := folder("/workspace/l", 0o755)
				_, err := e.Apply(&entry, 0)
				return err
			},
			func(e *tree.Edit, _ *bench) error {
				entry := link("/workspace/l", "f")
				_, err := e.Apply(&entry, 0)
				return err
			},
			`"l": the tree has a dir`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, disk.Config{Watch: true})
			b.apply(folder("/workspace/d", 0o755), b.file("/workspace/f", "right", 0o644), link("/workspace/l", "f"))
			b.must(b.ws.Check(t.Context()))
			edit := func(fn func(*tree.Edit, *bench) error) {
				_, err := b.tree.Update(context.Background(), func(e *tree.Edit) error { return fn(e, b) })
				b.must(err)
			}
			edit(c.change)
			if err := b.ws.Check(t.Context()); !errors.Is(err, disk.ErrDiffers) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %s", err, c.want)
			}
			edit(c.undo)
		})
	}
}

// What is applied is synced when that is wanted.
func TestSync(t *testing.T) {
	b := newBench(t, disk.Config{Sync: true})
	b.apply(b.file("/workspace/d/f", "x", 0o644))
	b.want(map[string]string{"d": "dir 0755", "d/f": "file 0644 x"})
}
