package disk_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A gate is a store that can refuse work.
type gate struct {
	tree.Store
	full   atomic.Bool  // Update fails, as on a full disk
	passes atomic.Int64 // how often it does not before
	viewed func()       // View calls it first, unless it is nil
}

var errFull = errors.New("the store is full")

func (g *gate) Update(ctx context.Context, fn func(tree.Tx) error) error {
	if g.full.Load() && g.passes.Add(-1) < 0 {
		return errFull
	}
	return g.Store.Update(ctx, fn)
}

func (g *gate) View(ctx context.Context, fn func(tree.Tx) error) error {
	if g.viewed != nil {
		g.viewed()
	}
	return g.Store.View(ctx, fn)
}

// pend applies entries that stay in the journal, because the store is full when a directory
// "a", which comes before all others, is to be removed.
func (b *bench) pend(entries ...tree.Entry) {
	b.t.Helper()
	b.must(os.Mkdir(b.path("a"), 0o755))
	b.settle()
	b.ws.Hook(func(op, path string) error {
		if op == "clear" && path == "a" {
			return errFull
		}
		return nil
	})
	_, err := b.ws.Apply(context.Background(), seq(append(entries, remove("/workspace/a"))), tree.SkipSame, nil)
	if _, ok := errors.AsType[*changes.PendingError](err); !ok {
		b.t.Fatalf("applied: %v", err)
	}
	b.ws.Hook(nil)
}

// settleUntil settles and ends the call the first time that a hook runs for op and path.
func (b *bench) settleUntil(op, path string) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ws.Hook(func(o, p string) error {
		if o == op && p == path {
			cancel()
		}
		return nil
	})
	if err := b.ws.Settle(ctx); !errors.Is(err, context.Canceled) {
		b.t.Fatalf("settled after the call had ended at %s of %s: %v", op, path, err)
	}
	b.ws.Hook(nil)
}

// The rows follow the index when a call ends after a directory was cleared for a file, or
// after the file was placed.
func TestRowsAfterCancel(t *testing.T) {
	for _, moment := range []string{"clear", "placed"} {
		t.Run(moment, func(t *testing.T) {
			both(t, func(t *testing.T, b *bench) {
				b.must(os.MkdirAll(b.path("d/sub"), 0o755))
				b.pend(b.file("/workspace/d", "a file", 0o644), b.file("/workspace/e", "another", 0o644))
				b.settleUntil(moment, "d")
				b.must(b.ws.Consistent(t.Context()))
				b.settle()
				if n := b.ws.Stats().Overtaken; n != 0 {
					t.Errorf("%d files that nobody else wrote were kept", n)
				}
				b.reopen()
				b.want(map[string]string{"d": "file 0644 a file", "e": "file 0644 another"})
			})
		})
	}
}

// The index is read from the rows again when the store refuses the rows of what was brought.
func TestRowsRefused(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.must(os.MkdirAll(b.path("d/sub"), 0o755))
		b.pend(b.file("/workspace/d", "a file", 0o644))
		b.ws.Hook(func(op, _ string) error {
			b.gate.full.Store(b.gate.full.Load() || op == "placed")
			return nil
		})
		if err := b.ws.Settle(t.Context()); !errors.Is(err, errFull) {
			t.Fatalf("settled with a full store: %v", err)
		}
		b.ws.Hook(nil)
		b.gate.full.Store(false)
		b.settle()
		b.reopen()
		b.want(map[string]string{"d": "file 0644 a file"})
	})
}
