package changes

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
)

// Service serves sync/* on one connection.
type Service struct {
	peer    Peer
	plain   Peer // for calls without anyNames
	streams *stream.Set

	mu      sync.Mutex
	relieve context.CancelCauseFunc // ends the sync/await under way
}

// errRelieved is why a sync/await ends when another one comes.
var errRelieved = errors.New("another one waits")

// NewService makes the Service of a connection whose streams are those of a Set, which is
// bound beside it and closed after it. All connections have the same Peer.
func NewService(peer Peer, streams *stream.Set) *Service {
	s := &Service{peer: peer, plain: peer, streams: streams}
	if of, ok := peer.(interface{ PlainNames() Peer }); ok {
		s.plain = of.PlainNames()
	}
	return s
}

// of is the peer as a caller has it.
func (s *Service) of(anyNames bool) Peer {
	if anyNames {
		return s.peer
	}
	return s.plain
}

// Close implements rpc.Service. The streams end with their Set.
func (s *Service) Close() error { return nil }

// Register adds the methods of a *Service to t, but not the notifications of streams.
// They wait for changes of files before them, and run beside each other: those that stream
// or settle hold up nobody, and take effect when they are answered.
func Register(t *rpc.Table) {
	handle(t, protocol.MethodSyncWatermarks, (*Service).watermarks)
	handle(t, protocol.MethodSyncHasObjects, (*Service).hasObjects)
	handle(t, protocol.MethodSyncFetchObjects, (*Service).fetchObjects)
	handle(t, protocol.MethodSyncPushObjects, (*Service).pushObjects)
	handle(t, protocol.MethodSyncPush, (*Service).push)
	handle(t, protocol.MethodSyncFetchChanges, (*Service).fetchChanges)
	handle(t, protocol.MethodSyncReadEntry, (*Service).readEntry)
	handle(t, protocol.MethodSyncFetchChangePack, (*Service).fetchChangePack)
	handle(t, protocol.MethodSyncApplyChangePack, (*Service).applyChangePack)
	handle(t, protocol.MethodSyncLost, (*Service).lost)
	handle(t, protocol.MethodSyncAwait, (*Service).await)
	stream.Announce(t, protocol.MethodSyncPushObjects, func(s *Service, p *protocol.PushObjectsParams) (*stream.Set, *protocol.StreamParam) {
		return s.streams, &p.Objects
	})
	stream.Announce(t, protocol.MethodSyncPush, func(s *Service, p *protocol.PushParams) (*stream.Set, *protocol.StreamParam) {
		return s.streams, &p.Changes
	})
	stream.Announce(t, protocol.MethodSyncApplyChangePack, func(s *Service, p *protocol.ApplyChangePackParams) (*stream.Set, *protocol.StreamParam) {
		return s.streams, &p.Pack
	})
}

func handle[P, R any](t *rpc.Table, method string, fn func(*Service, context.Context, *P) (R, error)) {
	order := rpc.Always[P](rpc.LooksAtFiles.And(rpc.SeenByWatches))
	rpc.Handle(t, rpc.Spec[P]{Name: method, Family: "sync", Order: order}, func(s *Service, ctx context.Context, p *P) (R, error) {
		result, err := fn(s, ctx, p)
		return result, answerError(err)
	})
}

func (s *Service) watermarks(ctx context.Context, p *protocol.WatermarksParams) (*protocol.WatermarksResult, error) {
	rpc.Async(ctx)
	w, err := s.of(p.AnyNames).Watermarks(ctx, p.Settle)
	if err != nil {
		return nil, err
	}
	return &protocol.WatermarksResult{
		CurrentRev: w.CurrentRev, PushRev: w.PushRev, FetchCursor: CursorToWire(w.Fetch), ChecksBase: w.ChecksBase, SetsTimes: w.SetsTimes, AnyNames: w.AnyNames, ChecksAlone: w.ChecksAlone,
		Lost: w.Lost, Skipped: SkippedToWire(w.Skipped),
	}, nil
}

func (s *Service) hasObjects(ctx context.Context, p *protocol.HashesParams) (*protocol.HasObjectsResult, error) {
	hashes, err := hashesOf(p.Hashes)
	if err != nil {
		return nil, err
	}
	held, err := s.peer.HasObjects(ctx, hashes)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(held))
	for i, h := range held {
		out[i] = h.String()
	}
	return &protocol.HasObjectsResult{Hashes: out}, nil
}

func (s *Service) fetchObjects(ctx context.Context, p *protocol.FetchObjectsParams) (*protocol.StreamResult, error) {
	rpc.Async(ctx)
	hashes, err := hashesOf(p.Hashes)
	if err != nil {
		return nil, err
	}
	out, err := s.streams.Reserve(p.Window, protocol.StreamWindow)
	if err != nil {
		return nil, err
	}
	objects, err := s.peer.FetchObjects(ctx, hashes)
	if err != nil {
		out.Release()
		return nil, err
	}
	out.Send(ctx, ToSource(objects, ObjectToWire))
	return &protocol.StreamResult{Stream: out.Ref()}, nil
}

func (s *Service) pushObjects(ctx context.Context, p *protocol.PushObjectsParams) (*protocol.Empty, error) {
	rpc.Async(ctx)
	in, err := s.streams.Receive(ctx, &p.Objects)
	if err != nil {
		return nil, err
	}
	objects := FromStream(in, ObjectFromWire)
	err = s.peer.PushObjects(ctx, objects)
	objects.Close(err)
	return &protocol.Empty{}, err
}

func (s *Service) push(ctx context.Context, p *protocol.PushParams) (*protocol.PushResult, error) {
	rpc.Async(ctx)
	in, err := s.streams.Receive(ctx, &p.Changes)
	if err != nil {
		return nil, err
	}
	entries := FromStream(in, EntryFromWire)
	input := PushInput{SenderRev: p.SenderRev, Ignore: p.Ignore, Partly: p.Partly, Times: p.Times, Alone: p.Alone}
	var r PushResult
	if input.Cursor, err = OptionalFromWire(p.SenderCursor); err == nil {
		input.Base, err = OptionalFromWire(p.Base)
	}
	if err == nil {
		r, err = s.of(p.AnyNames).Push(ctx, input, entries)
	}
	entries.Close(err)
	if err != nil {
		return nil, err
	}
	return &protocol.PushResult{
		Rev: r.Rev, Before: r.Before, Applied: r.Applied, AppliedPushCursor: CursorToWire(r.AppliedPushCursor),
		Conflicts: r.Conflicts, Overtaken: LostToWire(r.Overtaken), OvertakenMore: r.MoreOvertaken,
		Kept: KeptToWire(r.Kept), KeptMore: r.MoreKept,
		Disowned: r.Disowned, DisownedMore: r.MoreDisowned,
		Unwritten: r.Unwritten, UnwrittenMore: r.MoreUnwritten,
	}, nil
}

func (s *Service) lost(ctx context.Context, p *protocol.LostParams) (*protocol.LostResult, error) {
	rpc.Async(ctx)
	list, more, err := s.of(p.AnyNames).Lost(ctx, p.After, p.Limit)
	if err != nil {
		return nil, err
	}
	return &protocol.LostResult{Versions: LostToWire(list), More: more}, nil
}

func (s *Service) fetchChanges(ctx context.Context, p *protocol.FetchChangesParams) (*protocol.FetchChangesResult, error) {
	rpc.Async(ctx)
	query, err := QueryFromWire(p.After, p.Through, p.Ignore)
	if err != nil {
		return nil, err
	}
	out, err := s.streams.Reserve(p.Window, protocol.StreamWindow)
	if err != nil {
		return nil, err
	}
	f, err := s.of(p.AnyNames).FetchChanges(ctx, query)
	if err != nil {
		out.Release()
		return nil, err
	}
	out.Send(ctx, ToSource(f.Entries, EntryToWire))
	return &protocol.FetchChangesResult{
		CurrentCursor: CursorToWire(f.Current), AppliedPushCursor: CursorToWire(f.AppliedPush), Stream: out.Ref(),
	}, nil
}

func (s *Service) readEntry(ctx context.Context, p *protocol.ReadEntryParams) (*protocol.ReadEntryResult, error) {
	e, err := s.of(p.AnyNames).ReadEntry(ctx, p.Path)
	if err != nil || e == nil {
		return &protocol.ReadEntryResult{}, err
	}
	return &protocol.ReadEntryResult{Entry: EntryToWire(e)}, nil
}

func (s *Service) fetchChangePack(ctx context.Context, p *protocol.FetchChangePackParams) (*protocol.FetchChangePackResult, error) {
	rpc.Async(ctx)
	query := PackQuery{MaxEntries: p.MaxEntries, MaxBytes: p.MaxBytes, Generation: p.Generation}
	var err error
	if query.FetchQuery, err = QueryFromWire(p.After, p.Through, p.Ignore); err != nil {
		return nil, err
	}
	out, err := s.streams.Reserve(p.Window, protocol.StreamWindow)
	if err != nil {
		return nil, err
	}
	pack, err := s.of(p.AnyNames).FetchChangePack(ctx, query)
	if err != nil {
		out.Release()
		return nil, err
	}
	out.Send(ctx, ToSource(pack.Pieces, PieceToWire))
	return &protocol.FetchChangePackResult{
		Cursor: CursorToWire(pack.Cursor), Drained: pack.Drained, EntryCount: pack.Entries,
		AppliedPushCursor: CursorToWire(pack.AppliedPush), Stream: out.Ref(),
	}, nil
}

func (s *Service) applyChangePack(ctx context.Context, p *protocol.ApplyChangePackParams) (*protocol.ApplyChangePackResult, error) {
	rpc.Async(ctx)
	in, err := s.streams.Receive(ctx, &p.Pack)
	if err != nil {
		return nil, err
	}
	pieces := FromStream(in, PieceFromWire)
	r, err := s.of(p.AnyNames).ApplyChangePack(ctx, p.Generation, pieces)
	pieces.Close(err)
	if err != nil {
		return nil, err
	}
	return &protocol.ApplyChangePackResult{AppliedPushCursor: CursorToWire(r.AppliedPushCursor), Applied: r.Applied, EntryCount: r.Entries}, nil
}

// hashesOf reads a list of hashes, within the limit.
func hashesOf(digits []string) ([]tree.Hash, error) {
	if len(digits) > MaxHashes {
		return nil, protocolErrorf("%d hashes in one call, where %d are possible", len(digits), MaxHashes)
	}
	out := make([]tree.Hash, len(digits))
	for i, d := range digits {
		var err error
		if out[i], err = ParseHash(d); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ParseHash reads the hexadecimal digits of a hash. What are none is EINVAL.
func ParseHash(digits string) (h tree.Hash, err error) {
	if len(digits) != 2*len(h) {
		return h, &Error{Code: "EINVAL", Err: errHash}
	}
	if _, err := hex.Decode(h[:], []byte(digits)); err != nil {
		return h, &Error{Code: "EINVAL", Err: errHash}
	}
	return h, nil
}
