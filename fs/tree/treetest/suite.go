package treetest

import (
	"context"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Test runs all tests. open returns a new, empty store, and sees to it that it is closed
// when the test ends.
func Test(t *testing.T, open func(testing.TB) tree.Store) {
	t.Run("Rules", func(t *testing.T) { rules(t, open) })
	t.Run("Changes", func(t *testing.T) { changes(t, open) })
	t.Run("Content", func(t *testing.T) { content(t, open) })
	t.Run("Collect", func(t *testing.T) { collect(t, open) })
	t.Run("Concurrent", func(t *testing.T) { concurrent(t, open) })
	t.Run("Model", func(t *testing.T) { model(t, open) })
}

// A clock that stands still until it is moved.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func (c *clock) advance(d time.Duration) { c.Time = c.Add(d) }

// A bench is a tree with a clock, whose invariants are checked when the test ends.
type bench struct {
	testing.TB
	store  tree.Store
	forest *tree.Forest
	tree   *tree.Tree
	clock  *clock
}

func newBench(t testing.TB, store tree.Store) *bench {
	t.Helper()
	b := share(t, store, tree.DefaultName)
	t.Cleanup(func() { b.check() })
	return b
}

// share is newBench on a store that others use, each under a name of its own. Whoever
// has opened the store checks it.
func share(t testing.TB, store tree.Store, name string) *bench {
	t.Helper()
	b := &bench{TB: t, store: store, clock: &clock{time.Unix(1_800_000_000, 0)}}
	b.forest = tree.New(store, tree.Config{Now: b.clock.now, FirstRev: 1})
	var err error
	if b.tree, err = b.forest.Tree(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) check() {
	b.Helper()
	if err := b.forest.Check(context.Background()); err != nil {
		b.Errorf("at the end: %v", err)
	}
}

// stage keeps content and returns its parts.
func (b *bench) stage(text string) []tree.Part {
	b.Helper()
	if text == "" {
		return nil
	}
	d := tree.Data{Hash: tree.Sum([]byte(text)), Bytes: []byte(text)}
	if _, err := b.forest.PutChunks(b.Context(), d); err != nil {
		b.Fatal(err)
	}
	return []tree.Part{{Hash: d.Hash, Size: int64(len(text))}}
}

func (b *bench) rev() int64 {
	b.Helper()
	info, err := b.tree.Info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return info.Rev
}
