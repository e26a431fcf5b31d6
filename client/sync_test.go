package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// file is an entry of a file of some objects.
func file(rev int64, path string, mode uint32, objects ...tree.Data) tree.Entry {
	e := tree.Entry{Kind: tree.KindFile, Rev: rev, Path: path, Mode: mode, MTime: time.UnixMilli(1_700_000_000_123)}
	for _, o := range objects {
		e.Parts = append(e.Parts, tree.Part{Hash: o.Hash, Size: int64(len(o.Bytes))})
		e.Size += int64(len(o.Bytes))
	}
	return e
}

// What is pushed through a server can be fetched through it, in entries and in packs, and
// is the same.
func TestSyncRoundTrip(t *testing.T) {
	for name, objects := range map[string][]tree.Data{
		"small": {object(10, 1), object(20, 2)},
		"large": {object(tree.ChunkSize, 3), object(tree.ChunkSize, 4), object(tree.ChunkSize, 5), object(7, 6)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			peer := serveWorkspace(t, memoryPeer(t), nil).open(t).Sync()
			if err := peer.PushObjects(ctx, changes.FromSlice(objects)); err != nil {
				t.Fatal(err)
			}
			var hashes []tree.Hash
			for _, o := range objects {
				hashes = append(hashes, o.Hash)
			}
			asked := append([]tree.Hash{{1}, hashes[0]}, hashes...)
			held, err := peer.HasObjects(ctx, asked)
			if diff := cmp.Diff(asked[1:], held); diff != "" || err != nil {
				t.Errorf("held (-want +got): %s%v", diff, err)
			}
			var whole []tree.Data
			if name == "large" {
				whole = objects
			} else {
				whole = objects[:1]
			}
			entries := []tree.Entry{
				file(4, "/w/f", 0o755, whole...),
				file(4, "/w/empty", 0o600),
				{Kind: tree.KindSymlink, Rev: 5, Path: "/w/l", Mode: tree.LinkMode, MTime: time.UnixMilli(5), Target: "f"},
				{Kind: tree.KindDelete, Rev: 6, Path: "/w/gone"},
				{Kind: tree.KindDir, Rev: 7, Path: "/w", Mode: 0o700, MTime: time.UnixMilli(1)},
			}
			cursor := tree.AtPath(7, "/w")
			r, err := peer.Push(ctx, changes.PushInput{SenderRev: 9, Cursor: &cursor}, changes.FromSlice(entries))
			if err != nil || r.Applied != len(entries) || r.AppliedPushCursor != cursor || r.Before >= r.Rev {
				t.Fatalf("push: %+v, %v", r, err)
			}
			w, err := peer.Watermarks(ctx, true)
			if err != nil || w.CurrentRev != r.Rev || w.Fetch != cursor || w.PushRev != 0 {
				t.Errorf("watermarks: %+v, %v", w, err)
			}

			f, err := peer.FetchChanges(ctx, changes.FetchQuery{})
			if err != nil || f.Current != tree.At(r.Rev) || f.AppliedPush != cursor {
				t.Fatalf("fetch: %+v, %v", f, err)
			}
			fetched, err := changes.Collect(ctx, f.Entries)
			if err != nil || len(fetched) != 4 {
				t.Fatalf("fetched %+v, %v", fetched, err)
			}
			for _, e := range fetched {
				alone, err := peer.ReadEntry(ctx, e.Path)
				if err != nil || alone == nil {
					t.Fatalf("%s: %v, %v", e.Path, alone, err)
				}
				if diff := cmp.Diff(e, *alone); diff != "" {
					t.Errorf("%s (-stream +alone):\n%s", e.Path, diff)
				}
			}
			stream, err := peer.FetchObjects(ctx, hashes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := changes.Collect(ctx, stream)
			if !slices.EqualFunc(objects, got, func(a, b tree.Data) bool { return a.Hash == b.Hash && bytes.Equal(a.Bytes, b.Bytes) }) || err != nil {
				t.Errorf("%d objects, %v", len(got), err)
			}

			pack, err := peer.FetchChangePack(ctx, changes.PackQuery{MaxEntries: 100, MaxBytes: 1 << 30, Generation: "g"})
			if err != nil || !pack.Drained || pack.Entries != 4 || pack.Cursor != tree.At(r.Rev) {
				t.Fatalf("pack: %+v, %v", pack, err)
			}
			other := serveWorkspace(t, memoryPeer(t), nil).open(t).Sync()
			applied, err := other.ApplyChangePack(ctx, "g", pack.Pieces)
			if err != nil || applied.Entries != 4 || applied.AppliedPushCursor != pack.Cursor {
				t.Errorf("apply: %+v, %v", applied, err)
			}
			e, err := other.ReadEntry(ctx, "/w/f")
			if err != nil || e == nil || e.Size != entries[0].Size || e.Mode != 0o755 {
				t.Errorf("applied: %+v, %v", e, err)
			}
		})
	}
}

// What a push leaves out, and what is kept since something took its place, come over the wire.
func TestSyncPushWithBase(t *testing.T) {
	ctx := t.Context()
	c := serveWorkspace(t, memoryPeer(t), nil).open(t)
	peer := c.Sync()
	w, err := peer.Watermarks(ctx, false)
	if err != nil || !w.ChecksBase {
		t.Fatalf("%+v, %v", w, err)
	}
	base := tree.At(w.CurrentRev)
	if _, err := peer.Push(ctx, changes.PushInput{}, changes.FromSlice([]tree.Entry{file(0, "/é", 0o600)})); err != nil {
		t.Fatal(err)
	}
	entries := []tree.Entry{file(1, "/é", 0o755), file(1, "/f", 0o755)}
	r, err := peer.Push(ctx, changes.PushInput{SenderRev: 1, Base: &base}, changes.FromSlice(entries))
	if err != nil || !slices.Equal(r.Conflicts, []string{"/é"}) || len(r.Overtaken) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if list, more, err := peer.Lost(ctx, 0, 0); len(list) > 0 || more || err != nil {
		t.Errorf("%v, more %t, %v", list, more, err)
	}
	if _, _, err := peer.Lost(ctx, -1, 0); changes.Code(err) != changes.CodeProtocol {
		t.Error(err)
	}
}

// Errors have the codes that the server gives them.
func TestSyncErrors(t *testing.T) {
	ctx := t.Context()
	c := serveWorkspace(t, memoryPeer(t), nil).open(t)
	peer := c.Sync()
	unknown := object(5, 9)
	bad := file(1, "/f", 0o644, unknown)
	bad.Size++
	many := make([]tree.Hash, changes.MaxHashes+1)
	for name, tt := range map[string]struct {
		call       func() error
		code, path string
	}{
		"unknown object":  {func() error { _, err := peer.FetchObjects(ctx, []tree.Hash{unknown.Hash}); return err }, "EUNKNOWN_HASH", ""},
		"too many hashes": {func() error { _, err := peer.FetchObjects(ctx, many); return err }, "EPROTOCOL", ""},
		"content that is not held": {func() error {
			_, err := peer.Push(ctx, changes.PushInput{}, changes.FromSlice([]tree.Entry{file(1, "/f", 0o644, unknown)}))
			return err
		}, "EUNKNOWN_HASH", "/f"},
		"a lie": {func() error {
			_, err := peer.Push(ctx, changes.PushInput{}, changes.FromSlice([]tree.Entry{bad}))
			return err
		}, "EINVAL", "/f"},
		"a relative path": {func() error { _, err := peer.ReadEntry(ctx, "f"); return err }, "EINVAL", "f"},
		"a wrong hash": {func() error {
			return peer.PushObjects(ctx, changes.FromSlice([]tree.Data{{Hash: tree.Hash{1}, Bytes: []byte("x")}}))
		}, "EINVAL", ""},
		"no pack": {func() error {
			_, err := peer.ApplyChangePack(ctx, "g", changes.FromSlice([][]byte{[]byte("no pack")}))
			return err
		}, "EPACK_PROTOCOL", ""},
	} {
		err := tt.call()
		if changes.Code(err) != tt.code || changes.Path(err) != tt.path {
			t.Errorf("%s: code %q, path %q: %v", name, changes.Code(err), changes.Path(err), err)
		}
	}
	if _, err := peer.FetchObjects(ctx, []tree.Hash{unknown.Hash}); !errors.Is(err, tree.ErrUnknownHash) {
		t.Errorf("not an ErrUnknownHash: %v", err)
	}
	if e, err := peer.ReadEntry(ctx, "/f"); e != nil || err != nil {
		t.Errorf("what was refused is there: %v, %v", e, err)
	}
	if held, err := peer.HasObjects(ctx, many); len(held) != 0 || err != nil {
		t.Errorf("many hashes: %d, %v", len(held), err)
	}
}

// brokenStream fails after some items, and counts what becomes of it.
type brokenStream struct {
	items  []tree.Data
	err    error
	mu     sync.Mutex
	closed []error
}

func (s *brokenStream) Next(ctx context.Context) (tree.Data, error) {
	if len(s.items) == 0 {
		if s.err == nil {
			<-ctx.Done()
			return tree.Data{}, context.Cause(ctx)
		}
		return tree.Data{}, s.err
	}
	item := s.items[0]
	s.items = s.items[1:]
	return item, nil
}

func (s *brokenStream) Close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, err)
}

// A stream of ours that fails fails the call with its own error, short or long. It is
// closed, once, before the call returns.
func TestSyncSourceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := serveWorkspace(t, memoryPeer(t), nil).open(t).Sync()
		mine := errors.New("the disk is gone")
		for _, items := range [][]tree.Data{nil, {object(5, 1)}, {object(tree.ChunkSize, 1), object(tree.ChunkSize, 2)}} {
			s := &brokenStream{items: items, err: mine}
			if err := peer.PushObjects(t.Context(), s); !errors.Is(err, mine) {
				t.Errorf("%d items: %v", len(items), err)
			}
			if len(s.closed) != 1 || !errors.Is(s.closed[0], mine) {
				t.Errorf("%d items: closed with %v", len(items), s.closed)
			}
		}
		// The server refuses the first of many.
		wrong := tree.Data{Hash: tree.Hash{1}, Bytes: make([]byte, tree.ChunkSize)}
		s := &brokenStream{items: []tree.Data{wrong, object(tree.ChunkSize, 1)}}
		if err := peer.PushObjects(t.Context(), s); changes.Code(err) != "EINVAL" || len(s.closed) != 1 {
			t.Errorf("a wrong hash: %v, closed %v", err, s.closed)
		}
		// We give up.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s = &brokenStream{items: []tree.Data{object(tree.ChunkSize, 3)}}
		if err := peer.PushObjects(ctx, s); !errors.Is(err, context.DeadlineExceeded) || len(s.closed) != 1 {
			t.Errorf("given up: %v, closed %v", err, s.closed)
		}
		if _, err := peer.Watermarks(t.Context(), false); err != nil {
			t.Error(err)
		}
	})
}

// slowPeer has a fetch of many entries, and tells when its stream is closed.
type slowPeer struct {
	changes.Peer
	opening chan struct{} // the answer waits for it; nil to answer at once
	closed  chan error
}

func (p *slowPeer) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	if p.opening != nil {
		select {
		case <-p.opening:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	n := int64(0)
	return &changes.Fetch{Entries: changes.FromFunc(func(context.Context) (tree.Entry, error) {
		if n++; n > 100_000 {
			return tree.Entry{}, io.EOF
		}
		return tree.Entry{Kind: tree.KindDelete, Rev: n, Path: "/" + strconv.FormatInt(n, 10)}, nil
	}, func(err error) { p.closed <- err })}, nil
}

// A stream that is not wanted any more is closed at the server, also when the call was
// given up before its answer.
func TestSyncGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowPeer{closed: make(chan error, 1)}
		peer := serveWorkspace(t, slow, nil).open(t).Sync()
		f, err := peer.FetchChanges(t.Context(), changes.FetchQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(2000) {
			if e, err := f.Entries.Next(t.Context()); err != nil || e.Rev != i+1 {
				t.Fatalf("%+v, %v", e, err)
			}
		}
		f.Entries.Close(nil)
		if err := <-slow.closed; err == nil {
			t.Error("closed as if it had been read")
		}
		slow.opening = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := peer.FetchChanges(ctx, changes.FetchQuery{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fetch: %v", err)
		}
		close(slow.opening)
		if err := <-slow.closed; err == nil {
			t.Error("closed as if it had been read")
		}
	})
}

// An applyingPeer applies a push once it is let to.
type applyingPeer struct {
	changes.Peer
	applying, done chan struct{}
}

func (p *applyingPeer) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	close(p.applying)
	select {
	case <-p.done:
	case <-ctx.Done():
		return changes.PushResult{}, context.Cause(ctx)
	}
	return p.Peer.Push(ctx, in, entries)
}

// While the server applies one block, the content of the next one is sent over the same
// connection, and the one after that is asked about.
func TestSyncCallsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &applyingPeer{Peer: memoryPeer(t), applying: make(chan struct{}), done: make(chan struct{})}
		peer := serveWorkspace(t, p, nil).open(t).Sync()
		var objects []tree.Data
		for i := range 8 { // beyond the window of a stream
			objects = append(objects, object(tree.ChunkSize, byte(i)))
		}
		if err := peer.PushObjects(t.Context(), changes.FromSlice(objects[:1])); err != nil {
			t.Fatal(err)
		}
		pushed := make(chan error, 1)
		go func() {
			in := changes.PushInput{SenderRev: 1}
			_, err := peer.Push(t.Context(), in, changes.FromSlice([]tree.Entry{file(1, "/f", 0o644, objects[0])}))
			pushed <- err
		}()
		<-p.applying
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := peer.PushObjects(ctx, changes.FromSlice(objects[1:])); err != nil {
			t.Errorf("send content meanwhile: %v", err)
		}
		if held, err := peer.HasObjects(ctx, []tree.Hash{objects[7].Hash}); err != nil || len(held) != 1 {
			t.Errorf("ask meanwhile: %v, %v", held, err)
		}
		select {
		case err := <-pushed:
			t.Errorf("the push has ended: %v", err)
		default:
		}
		close(p.done)
		if err := <-pushed; err != nil {
			t.Error(err)
		}
	})
}

// A cut ends a stream, whose reader goes on from where it was on the next connection.
func TestSyncCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowPeer{closed: make(chan error, 1), Peer: memoryPeer(t)}
		s := serveWorkspace(t, slow, nil)
		peer := s.open(t).Sync()
		f, err := peer.FetchChanges(t.Context(), changes.FetchQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Entries.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.cut()
		var last error
		for last == nil {
			_, last = f.Entries.Next(t.Context())
		}
		if !errors.Is(last, client.ErrTransportClosed) {
			t.Errorf("the stream ended with %v", last)
		}
		f.Entries.Close(nil)
		<-slow.closed
		if _, err := peer.Watermarks(t.Context(), false); err != nil {
			t.Errorf("after the cut: %v", err)
		}
		// Cut while the answer to the question is being made: asked again.
		slow.opening = make(chan struct{})
		go func() {
			synctest.Wait()
			s.cut()
			synctest.Wait()
			close(slow.opening)
		}()
		if f, err = peer.FetchChanges(t.Context(), changes.FetchQuery{}); err != nil {
			t.Fatal(err)
		}
		f.Entries.Close(nil)
		<-slow.closed
		// A push is not.
		go func() {
			synctest.Wait()
			s.cut()
		}()
		stuck := &brokenStream{items: []tree.Data{object(tree.ChunkSize, 1)}}
		if err := peer.PushObjects(t.Context(), stuck); !errors.Is(err, client.ErrMayHaveRun) || len(stuck.closed) != 1 {
			t.Errorf("push: %v, closed %v", err, stuck.closed)
		}
	})
}
