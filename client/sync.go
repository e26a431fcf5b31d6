package client

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// Sync is the server's workspace as an end of a synchronisation. It needs the capability
// sync.
//
// Watermarks, HasObjects, ReadEntry, Lost, Await and the opening of what is fetched are sent again when
// the connection is lost before the answer. A stream that is open then fails with
// ErrTransportClosed: open another from the cursor of the last entry. Calls that push are
// sent once. Errors that the server has a name for are *changes.Error around *Error.
//
// Paths and targets stand for names of any bytes (package rawname) if Watermarks.AnyNames says
// so, else they are what they are.
//
// Push, PushObjects and ApplyChangePack read up to 256 KiB of their stream before anything
// is sent, and close it before they return.
func (c *Client) Sync() changes.Peer { return syncPeer{c} }

type syncPeer struct{ client *Client }

// syncError gives an error of the server the name that it has among peers.
func syncError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Name != "" {
		return &changes.Error{Code: e.Name, Path: e.Path, Err: err}
	}
	return err
}

// Watermarks implements changes.Peer.
func (p syncPeer) Watermarks(ctx context.Context, settle bool) (w changes.Watermarks, err error) {
	if err := p.client.need(ctx, protocol.CapSync); err != nil {
		return w, err
	}
	var r protocol.WatermarksResult
	if err := p.client.repeat(ctx, protocol.MethodSyncWatermarks, &protocol.WatermarksParams{Settle: settle, AnyNames: true}, &r); err != nil {
		return w, syncError(err)
	}
	w.CurrentRev, w.PushRev, w.ChecksBase, w.Lost = r.CurrentRev, r.PushRev, r.ChecksBase, r.Lost
	w.SetsTimes, w.AnyNames, w.ChecksAlone = r.SetsTimes, r.AnyNames, r.ChecksAlone
	w.Skipped = changes.SkippedFromWire(r.Skipped)
	w.Fetch, err = changes.CursorFromWire(r.FetchCursor)
	return w, err
}

// HasObjects implements changes.Peer.
func (p syncPeer) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	var held []tree.Hash
	for len(hashes) > 0 {
		some := hashes[:min(len(hashes), changes.MaxHashes)]
		hashes = hashes[len(some):]
		var r protocol.HasObjectsResult
		if err := p.client.repeat(ctx, protocol.MethodSyncHasObjects, &protocol.HashesParams{Hashes: digits(some)}, &r); err != nil {
			return nil, syncError(err)
		}
		for _, d := range r.Hashes {
			h, err := changes.ParseHash(d)
			if err != nil {
				return nil, err
			}
			held = append(held, h)
		}
	}
	return held, nil
}

func digits(hashes []tree.Hash) []string {
	out := make([]string, len(hashes))
	for i, h := range hashes {
		out[i] = h.String()
	}
	return out
}

// FetchObjects implements changes.Peer.
func (p syncPeer) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	window := int64(syncWindow)
	var r protocol.StreamResult
	o := &opening{window: window, result: &r, ref: &r.Stream}
	if err := p.client.reopen(ctx, protocol.MethodSyncFetchObjects, &protocol.FetchObjectsParams{Hashes: digits(hashes), Window: &window}, o); err != nil {
		return nil, syncError(err)
	}
	return received(o.in, changes.ObjectFromWire), nil
}

// PushObjects implements changes.Peer.
func (p syncPeer) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	return syncError(give(ctx, p.client, protocol.MethodSyncPushObjects, objects, changes.ObjectToWire,
		func(s protocol.StreamParam) any { return &protocol.PushObjectsParams{Objects: s} }, nil))
}

// Push implements changes.Peer.
func (p syncPeer) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (out changes.PushResult, err error) {
	cursor, base := changes.OptionalToWire(in.Cursor), changes.OptionalToWire(in.Base)
	var r protocol.PushResult
	err = give(ctx, p.client, protocol.MethodSyncPush, entries, changes.EntryToWire,
		func(s protocol.StreamParam) any {
			return &protocol.PushParams{SenderRev: in.SenderRev, SenderCursor: cursor, Changes: s, Base: base, Ignore: in.Ignore, Partly: in.Partly, Times: in.Times, Alone: in.Alone, AnyNames: true}
		}, &r)
	if err != nil {
		return out, syncError(err)
	}
	out = changes.PushResult{
		Rev: r.Rev, Before: r.Before, Applied: r.Applied, Conflicts: r.Conflicts, MoreOvertaken: r.OvertakenMore,
		Kept: changes.KeptFromWire(r.Kept), MoreKept: r.KeptMore, Disowned: r.Disowned, MoreDisowned: r.DisownedMore,
		Unwritten: r.Unwritten, MoreUnwritten: r.UnwrittenMore,
	}
	if out.Overtaken, err = changes.LostFromWire(r.Overtaken); err != nil {
		return out, err
	}
	out.AppliedPushCursor, err = changes.CursorFromWire(r.AppliedPushCursor)
	return out, err
}

// FetchChanges implements changes.Peer.
func (p syncPeer) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	window := int64(syncWindow)
	params := &protocol.FetchChangesParams{Window: &window, AnyNames: true}
	params.After, params.Through, params.Ignore = changes.QueryToWire(q)
	var r protocol.FetchChangesResult
	o := &opening{window: window, result: &r, ref: &r.Stream}
	if err := p.client.reopen(ctx, protocol.MethodSyncFetchChanges, params, o); err != nil {
		return nil, syncError(err)
	}
	f := &changes.Fetch{Entries: received(o.in, changes.EntryFromWire)}
	var err error
	if f.Current, f.AppliedPush, err = changes.CursorsFromWire(r.CurrentCursor, r.AppliedPushCursor); err != nil {
		f.Entries.Close(err)
		return nil, err
	}
	return f, nil
}

// ReadEntry implements changes.Peer.
func (p syncPeer) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	var r protocol.ReadEntryResult
	if err := p.client.repeat(ctx, protocol.MethodSyncReadEntry, &protocol.ReadEntryParams{Path: path, AnyNames: true}, &r); err != nil {
		return nil, syncError(err)
	}
	if r.Entry == nil {
		return nil, nil
	}
	e, err := changes.EntryFromWire(r.Entry)
	return &e, err
}

// FetchChangePack implements changes.Peer.
func (p syncPeer) FetchChangePack(ctx context.Context, q changes.PackQuery) (*changes.Pack, error) {
	window := int64(syncWindow)
	params := &protocol.FetchChangePackParams{MaxEntries: q.MaxEntries, MaxBytes: q.MaxBytes, Generation: q.Generation, Window: &window, AnyNames: true}
	params.After, params.Through, params.Ignore = changes.QueryToWire(q.FetchQuery)
	var r protocol.FetchChangePackResult
	o := &opening{window: window, result: &r, ref: &r.Stream}
	if err := p.client.reopen(ctx, protocol.MethodSyncFetchChangePack, params, o); err != nil {
		return nil, syncError(err)
	}
	pack := &changes.Pack{Drained: r.Drained, Entries: r.EntryCount, Pieces: received(o.in, changes.PieceFromWire)}
	var err error
	if pack.Cursor, pack.AppliedPush, err = changes.CursorsFromWire(r.Cursor, r.AppliedPushCursor); err != nil {
		pack.Pieces.Close(err)
		return nil, err
	}
	return pack, nil
}

// ApplyChangePack implements changes.Peer.
func (p syncPeer) ApplyChangePack(ctx context.Context, generation string, pieces changes.Stream[[]byte]) (out changes.PackResult, err error) {
	var r protocol.ApplyChangePackResult
	err = give(ctx, p.client, protocol.MethodSyncApplyChangePack, pieces, changes.PieceToWire,
		func(s protocol.StreamParam) any {
			return &protocol.ApplyChangePackParams{Generation: generation, Pack: s, AnyNames: true}
		}, &r)
	if err != nil {
		return out, syncError(err)
	}
	out = changes.PackResult{Applied: r.Applied, Entries: r.EntryCount}
	out.AppliedPushCursor, err = changes.CursorFromWire(r.AppliedPushCursor)
	return out, err
}

// Lost implements changes.Peer. A server of a version before it gives errors.ErrUnsupported.
func (p syncPeer) Lost(ctx context.Context, after int64, limit int) ([]lost.Version, bool, error) {
	var r protocol.LostResult
	if err := p.client.repeat(ctx, protocol.MethodSyncLost, &protocol.LostParams{After: after, Limit: limit, AnyNames: true}, &r); err != nil {
		return nil, false, syncError(err)
	}
	list, err := changes.LostFromWire(r.Versions)
	return list, r.More, err
}

// Await implements changes.Peer. A server of a version before it gives errors.ErrUnsupported.
func (p syncPeer) Await(ctx context.Context, after, known int64) (int64, error) {
	var r protocol.AwaitResult
	if err := p.client.repeat(ctx, protocol.MethodSyncAwait, &protocol.AwaitParams{After: after, Lost: known}, &r); err != nil {
		return 0, syncError(err)
	}
	return r.CurrentRev, nil
}
