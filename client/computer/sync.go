package computer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/fs/changes"
	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// Watermarks implements changes.Peer.
func (c *Client) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	var w wire.Watermarks
	var args []any
	if settle {
		args = append(args, wire.WatermarksInput{Settle: true})
	}
	if err := c.call(ctx, &w, "sync.watermarks", args...); err != nil {
		return changes.Watermarks{}, c.peerError(err)
	}
	return w.Changes()
}

// HasObjects implements changes.Peer.
func (c *Client) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	var held [][]byte
	if err := c.call(ctx, &held, "sync.hasObjects", wire.HashList(hashes)); err != nil {
		return nil, c.peerError(err)
	}
	return wire.HashesOf(held)
}

// FetchObjects implements changes.Peer.
func (c *Client) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	var s capnweb.Stream[wire.Object]
	if err := c.call(ctx, &s, "sync.fetchObjects", wire.HashList(hashes)); err != nil {
		return nil, c.peerError(err)
	}
	return receive(c, s, wire.Object.Tree)
}

// PushObjects implements changes.Peer.
func (c *Client) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	up := newUpload(objects)
	return up.result(c.peerError(c.call(ctx, nil, "sync.pushObjects", wire.Send(up, wire.ObjectOf))))
}

// Push implements changes.Peer.
func (c *Client) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	var r wire.PushResult
	up := newUpload(entries)
	if err := c.call(ctx, &r, "sync.push", wire.PushInputOf(in, wire.Send(up, wire.EntryOf))); err != nil {
		return changes.PushResult{}, up.result(c.peerError(err))
	}
	return r.Changes()
}

// FetchChanges implements changes.Peer.
func (c *Client) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	var r wire.FetchResult
	if err := c.call(ctx, &r, "sync.fetchChanges", wire.FetchQueryOf(q)); err != nil {
		return nil, c.peerError(err)
	}
	entries, err := receive(c, r.Stream, wire.Entry.Tree)
	if err != nil {
		return nil, err
	}
	f := &changes.Fetch{Entries: entries}
	if f.Current, f.AppliedPush, err = changes.CursorsFromWire(r.CurrentCursor, r.AppliedPushCursor); err != nil {
		entries.Close(err)
		return nil, err
	}
	return f, nil
}

// ReadEntry implements changes.Peer.
func (c *Client) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	var e *wire.Entry
	if err := c.call(ctx, &e, "sync.readEntry", path); err != nil || e == nil {
		return nil, c.peerError(err)
	}
	out, err := e.Tree()
	return &out, err
}

// FetchChangePack implements changes.Peer.
func (c *Client) FetchChangePack(ctx context.Context, q changes.PackQuery) (*changes.Pack, error) {
	var r wire.PackResult
	if err := c.call(ctx, &r, "sync.fetchChangePack", wire.PackQueryOf(q)); err != nil {
		return nil, c.peerError(err)
	}
	pieces, err := receive(c, r.Stream, wire.Same[[]byte])
	if err != nil {
		return nil, err
	}
	p := &changes.Pack{Drained: r.Drained, Entries: r.EntryCount, Pieces: pieces}
	if p.Cursor, p.AppliedPush, err = changes.CursorsFromWire(r.Cursor, r.AppliedPushCursor); err != nil {
		pieces.Close(err)
		return nil, err
	}
	return p, nil
}

// Lost implements changes.Peer: the wire has no such call.
func (c *Client) Lost(context.Context, int64, int) ([]lost.Version, bool, error) {
	return nil, false, fmt.Errorf("list versions that were lost: %w", errors.ErrUnsupported)
}

// Await implements changes.Peer: the wire has no such call.
func (c *Client) Await(context.Context, int64, int64) (int64, error) {
	return 0, fmt.Errorf("wait for a change: %w", errors.ErrUnsupported)
}

// ApplyChangePack implements changes.Peer.
func (c *Client) ApplyChangePack(ctx context.Context, generation string, pieces changes.Stream[[]byte]) (changes.PackResult, error) {
	var r protocol.ApplyChangePackResult
	up := newUpload(pieces)
	in := wire.ApplyInput{Generation: generation, Stream: wire.Send(up, wire.Same[[]byte])}
	if err := c.call(ctx, &r, "sync.applyChangePack", in); err != nil {
		return changes.PackResult{}, up.result(c.peerError(err))
	}
	applied, err := changes.CursorFromWire(r.AppliedPushCursor)
	return changes.PackResult{AppliedPushCursor: applied, Applied: r.Applied, Entries: r.EntryCount}, err
}

// receive is a stream of a result.
func receive[W, T any](c *Client, s capnweb.Stream[W], form func(W) (T, error)) (changes.Stream[T], error) {
	if s.IsZero() {
		return nil, errors.New("the computer has answered without a stream")
	}
	return wire.Receive(s, form, func(err error) error { return c.peerError(c.lost(err)) }), nil
}

// An upload is a stream of an argument. It remembers what broke it, which is a better
// answer than the peer's, who can only say that it broke.
type upload[T any] struct {
	changes.Stream[T]
	mu  sync.Mutex
	err error
}

func newUpload[T any](s changes.Stream[T]) *upload[T] { return &upload[T]{Stream: s} }

// Next implements changes.Stream.
func (u *upload[T]) Next(ctx context.Context) (T, error) {
	item, err := u.Stream.Next(ctx)
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		u.mu.Lock()
		u.err = err
		u.mu.Unlock()
	}
	return item, err
}

func (u *upload[T]) result(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil && u.err != nil {
		return u.err
	}
	return err
}
