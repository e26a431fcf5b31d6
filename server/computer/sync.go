package computer

import (
	"context"

	"github.com/wsd-dev/wsd/fs/changes"
	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// syncTarget is the object called sync. hidden are the names that are hidden from a client
// that does not say.
func syncTarget(peer changes.Peer, hidden []string) *capnweb.Target {
	s := &syncer{peer, hidden}
	t := capnweb.NewTarget()
	t.Handle("watermarks", capnweb.Func1(s.watermarks))
	t.Handle("hasObjects", capnweb.Func1(s.hasObjects))
	t.Handle("fetchObjects", capnweb.Func1(s.fetchObjects))
	t.Handle("pushObjects", capnweb.Func1(s.pushObjects))
	t.Handle("push", capnweb.Func1(s.push))
	t.Handle("fetchChanges", capnweb.Func1(s.fetchChanges))
	t.Handle("readEntry", capnweb.Func1(s.readEntry))
	t.Handle("fetchChangePack", capnweb.Func1(s.fetchChangePack))
	t.Handle("applyChangePack", capnweb.Func1(s.applyChangePack))
	return t
}

type syncer struct {
	peer   changes.Peer
	hidden []string
}

// hide has a query hide what is hidden by default.
func (s *syncer) hide(q *changes.FetchQuery) {
	if q.Ignore == nil {
		q.Ignore = s.hidden
	}
}

func (s *syncer) watermarks(ctx context.Context, in wire.WatermarksInput) (wire.Watermarks, error) {
	w, err := s.peer.Watermarks(ctx, in.Settle)
	return wire.WatermarksOf(w), err
}

func (s *syncer) hasObjects(ctx context.Context, list [][]byte) ([][]byte, error) {
	wanted, err := wire.HashesOf(list)
	if err != nil {
		return nil, err
	}
	held, err := s.peer.HasObjects(ctx, wanted)
	return wire.HashList(held), err
}

func (s *syncer) fetchObjects(ctx context.Context, list [][]byte) (none capnweb.Stream[*wire.Object], err error) {
	wanted, err := wire.HashesOf(list)
	if err != nil {
		return none, err
	}
	objects, err := s.peer.FetchObjects(ctx, wanted)
	if err != nil {
		return none, err
	}
	return wire.Send(objects, wire.ObjectOf), nil
}

func (s *syncer) pushObjects(ctx context.Context, objects capnweb.Stream[wire.Object]) (none capnweb.Undefined, err error) {
	if objects.IsZero() {
		return none, missing("a stream of objects")
	}
	return none, s.peer.PushObjects(ctx, wire.Receive(objects, wire.Object.Tree, nil))
}

func (s *syncer) push(ctx context.Context, in wire.PushInput) (out wire.PushResult, err error) {
	if in.Changes.IsZero() {
		return out, missing("changes")
	}
	entries := wire.Receive(in.Changes, wire.Entry.Tree, nil)
	input, err := in.Input()
	if err != nil {
		entries.Close(err)
		return out, err
	}
	r, err := s.peer.Push(ctx, input, entries)
	return wire.PushResultOf(r), err
}

func (s *syncer) fetchChanges(ctx context.Context, in wire.FetchQuery) (out wire.FetchResult, err error) {
	q, err := in.Changes()
	if err != nil {
		return out, err
	}
	s.hide(&q)
	f, err := s.peer.FetchChanges(ctx, q)
	if err != nil {
		return out, err
	}
	return wire.FetchResult{
		CurrentCursor:     changes.CursorToWire(f.Current),
		AppliedPushCursor: changes.CursorToWire(f.AppliedPush),
		Stream:            wire.Send(f.Entries, wire.EntryOf),
	}, nil
}

func (s *syncer) readEntry(ctx context.Context, path string) (any, error) {
	e, err := s.peer.ReadEntry(ctx, path)
	if err != nil || e == nil {
		return nil, err
	}
	return wire.EntryOf(*e)
}

func (s *syncer) fetchChangePack(ctx context.Context, in wire.PackQuery) (out wire.PackResult, err error) {
	q, err := in.Changes()
	if err != nil {
		return out, err
	}
	s.hide(&q.FetchQuery)
	p, err := s.peer.FetchChangePack(ctx, q)
	if err != nil {
		return out, err
	}
	return wire.PackResult{
		Cursor: changes.CursorToWire(p.Cursor), Drained: p.Drained, EntryCount: p.Entries,
		AppliedPushCursor: changes.CursorToWire(p.AppliedPush),
		Stream:            wire.Send(p.Pieces, wire.Same[[]byte]),
	}, nil
}

func (s *syncer) applyChangePack(ctx context.Context, in wire.ApplyInput) (out protocol.ApplyChangePackResult, err error) {
	if in.Stream.IsZero() {
		return out, missing("the stream of the pack")
	}
	r, err := s.peer.ApplyChangePack(ctx, in.Generation, wire.Receive(in.Stream, wire.Same[[]byte], nil))
	return protocol.ApplyChangePackResult{AppliedPushCursor: changes.CursorToWire(r.AppliedPushCursor), Applied: r.Applied, EntryCount: r.Entries}, err
}

func missing(what string) error {
	return &capnweb.Error{Name: "TypeError", Code: capnweb.CodeInvalid, Message: what + " must be given"}
}
