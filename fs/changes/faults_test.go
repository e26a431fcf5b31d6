package changes_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A line carries calls to a peer until it is cut: after so many calls and stream items,
// or never when left is negative. With late, the last call is carried out and its answer lost.
type line struct {
	to   changes.Peer
	left int
	late bool
	then func() // is called after each call that got through
	last bool   // the last call is being carried out
}

// call carries one call.
func call[T any](l *line, fn func() (T, error)) (T, error) {
	var none T
	if l.left == 0 {
		return none, errCut
	}
	l.left--
	if l.left == 0 && !l.late {
		return none, errCut
	}
	l.last = l.left == 0
	out, err := fn()
	l.last = false
	if l.then != nil {
		l.then()
	}
	if l.left == 0 && err == nil {
		return none, errCut
	}
	return out, err
}

// carry carries the items of a stream.
func carry[T any](l *line, in changes.Stream[T]) changes.Stream[T] {
	return changes.FromFunc(func(ctx context.Context) (item T, err error) {
		if l.last {
			return in.Next(ctx)
		}
		if l.left == 0 {
			return item, errCut
		}
		if l.left--; l.left == 0 {
			return item, errCut
		}
		return in.Next(ctx)
	}, in.Close)
}

func (l *line) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	return call(l, func() (changes.Watermarks, error) { return l.to.Watermarks(ctx, settle) })
}

func (l *line) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	return call(l, func() ([]tree.Hash, error) { return l.to.HasObjects(ctx, hashes) })
}

func (l *line) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	return call(l, func() (changes.Stream[tree.Data], error) {
		s, err := l.to.FetchObjects(ctx, hashes)
		if err != nil {
			return nil, err
		}
		return carry(l, s), nil
	})
}

func (l *line) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	_, err := call(l, func() (struct{}, error) { return struct{}{}, l.to.PushObjects(ctx, carry(l, objects)) })
	return err
}

func (l *line) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	return call(l, func() (changes.PushResult, error) { return l.to.Push(ctx, in, carry(l, entries)) })
}

func (l *line) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	return call(l, func() (*changes.Fetch, error) {
		f, err := l.to.FetchChanges(ctx, q)
		if err == nil {
			f.Entries = carry(l, f.Entries)
		}
		return f, err
	})
}

func (l *line) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	return call(l, func() (*tree.Entry, error) { return l.to.ReadEntry(ctx, path) })
}

func (l *line) Lost(ctx context.Context, after int64, limit int) ([]lost.Version, bool, error) {
	return l.to.Lost(ctx, after, limit)
}

func (l *line) Await(ctx context.Context, after, known int64) (int64, error) {
	return call(l, func() (int64, error) { return l.to.Await(ctx, after, known) })
}

func (l *line) FetchChangePack(ctx context.Context, q changes.PackQuery) (*changes.Pack, error) {
	return call(l, func() (*changes.Pack, error) {
		p, err := l.to.FetchChangePack(ctx, q)
		if err == nil {
			p.Pieces = carry(l, p.Pieces)
		}
		return p, err
	})
}

func (l *line) ApplyChangePack(ctx context.Context, generation string, pieces changes.Stream[[]byte]) (changes.PackResult, error) {
	return call(l, func() (changes.PackResult, error) {
		return l.to.ApplyChangePack(ctx, generation, carry(l, pieces))
	})
}

// A mortal is a store whose process dies after so many updates, unless left is negative:
// the next one is lost, and all calls after it fail.
type mortal struct {
	tree.Store
	left int
}

var errDead = errors.New("the process is dead")

func (m *mortal) View(ctx context.Context, fn func(tree.Tx) error) error {
	if m.left == 0 {
		return errDead
	}
	return m.Store.View(ctx, fn)
}

func (m *mortal) Update(ctx context.Context, fn func(tree.Tx) error) error {
	if m.left == 0 {
		return errDead
	}
	m.left--
	return m.Store.Update(ctx, func(tx tree.Tx) error {
		if err := fn(tx); err != nil || m.left != 0 {
			return err
		}
		return errDead
	})
}

// copyTo copies the rows of a store that has one tree to an empty one.
func copyTo(t testing.TB, from, to tree.Store) {
	t.Helper()
	err := from.View(context.Background(), func(in tree.Tx) error {
		return to.Update(context.Background(), func(out tree.Tx) error { return copyRows(in, out) })
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyRows(in, out tree.Tx) error {
	spaces, err := in.Namespaces()
	if err != nil || len(spaces) != 1 {
		return errors.Join(err, errors.New("one tree was expected"))
	}
	ns := spaces[0]
	fresh := ns
	fresh.ID = 0
	errs := []error{out.PutNamespace(&fresh)}
	if fresh.ID != ns.ID {
		errs = append(errs, errors.New("the tree has another number"))
	}
	add := func(err error) error { errs = append(errs, err); return err }
	nodes, parts := map[int64]tree.Node{}, map[int64][]tree.Part{}
	add(in.EachPart(func(ino int64, _ int, p tree.Part) error { parts[ino] = append(parts[ino], p); return nil }))
	add(in.EachNode(func(n tree.Node) error { nodes[n.Ino] = n; return nil }))
	last := slices.Max(slices.Collect(maps.Keys(nodes)))
	for ino := int64(1); ino <= last; ino++ { // so that numbers go on behind the last
		n := tree.Node{Namespace: ns.ID, Kind: tree.KindDir}
		add(out.PutNode(&n))
		if real, ok := nodes[ino]; ok {
			add(out.PutFile(&real, nil, parts[ino]))
		} else {
			add(out.DeleteNode(ino))
		}
	}
	add(in.EachChunk(func(c tree.Chunk, _ int64) error {
		data, err := in.ChunkBytes(c.Hash, nil)
		if err != nil {
			return err
		}
		_, err = out.PutChunk(c.Hash, data, c.Seen)
		return err
	}))
	add(in.EachName(out.PutName))
	add(in.EachPeer(out.PutPeer))
	add(in.TombsAfter(ns.ID, 0, func(t tree.Tomb) error { return out.PutTomb(ns.ID, t) }))
	moves, err := in.Moves(ns.ID)
	add(err)
	for _, m := range moves {
		add(out.PutMove(ns.ID, m))
	}
	return errors.Join(errs...)
}
