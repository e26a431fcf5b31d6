package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A liar is a Peer that is out of order.
type liar struct {
	changes.Peer
	applied *tree.Cursor // what it says that it has applied
	twice   bool         // it lists each change twice
	more    bool         // it has what it was not asked about
}

func (l *liar) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	r, err := l.Peer.Push(ctx, in, entries)
	if l.applied != nil {
		r.AppliedPushCursor = *l.applied
	}
	return r, err
}

func (l *liar) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	held, err := l.Peer.HasObjects(ctx, hashes)
	if l.more {
		held = append(held, tree.Hash{1})
	}
	return held, err
}

func (l *liar) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	f, err := l.Peer.FetchChanges(ctx, q)
	if err == nil && l.twice {
		list, err := changes.Collect(ctx, f.Entries)
		if err != nil {
			return nil, err
		}
		f.Entries = changes.FromSlice(append(slices.Clone(list), list...))
	}
	return f, err
}

func TestInvariants(t *testing.T) {
	for name, lie := range map[string]liar{
		"not what was sent": {applied: &tree.Cursor{Rev: 1}},
		"not in order":      {twice: true},
		"not asked for":     {more: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			lie.Peer = w.remote.server
			w.cfg.Remote = &lie
			w.restart()
			w.local.do("write /f one")
			w.remote.do("write /g two")
			_, err := w.m.Sync(t.Context())
			if _, ok := errors.AsType[*InvariantError](err); !ok || !strings.Contains(err.Error(), name) && name != "not what was sent" {
				t.Fatalf("got %v, want an InvariantError", err)
			}
			// It does no harm to try again with one that is in order.
			w.cfg.Remote = w.remote.server
			w.restart()
			w.sync()
			w.rest()
		})
	}
}

// A forgetful Peer has collected content that its changes name.
type forgetful struct {
	changes.Peer
	gone tree.Hash
}

func (f *forgetful) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	held, err := f.Peer.HasObjects(ctx, hashes)
	return slices.DeleteFunc(held, func(h tree.Hash) bool { return h == f.gone }), err
}

func (f *forgetful) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	if slices.Contains(hashes, f.gone) {
		return nil, &tree.MissingError{Hash: f.gone}
	}
	return f.Peer.FetchObjects(ctx, hashes)
}

// What the remote has no more is left out: its path has changed, and comes again.
func TestContentGone(t *testing.T) {
	w := newWorld(t, Config{Remote: nil})
	w.cfg.Remote = &forgetful{w.remote.server, tree.Sum([]byte("old"))}
	w.restart()
	w.remote.do("write /a one", "write /f old", "write /z two")
	if _, err := w.m.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.local.want("/a 644 one", "/z 644 two")
	w.remote.do("write /f new")
	w.sync()
	w.local.want("/a 644 one", "/f 644 new", "/z 644 two")
	w.rest()
}

// A counter is a Peer that counts what it is sent at once.
type counter struct {
	changes.Peer
	blocks []int
}

func (c *counter) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	list, err := changes.Collect(ctx, entries)
	if err != nil {
		return changes.PushResult{}, err
	}
	c.blocks = append(c.blocks, len(list))
	return c.Peer.Push(ctx, in, changes.FromSlice(list))
}

// Many changes move in blocks, in both directions, and one revision may span several.
func TestBlocks(t *testing.T) {
	const files = 2*smallEntries + 500
	w := newWorld(t, Config{})
	c := &counter{Peer: w.remote.server}
	w.cfg.Remote = c
	w.smallBlocks()
	_, err := w.local.tree.Update(t.Context(), func(e *tree.Edit) error {
		for i := range files {
			if err := e.PutFile(fmt.Sprintf("/d/%05d", i), tree.File{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.sync()
	if !slices.Equal(c.blocks, []int{smallEntries, smallEntries, 501}) {
		t.Errorf("blocks of %d", c.blocks)
	}
	// One revision with all of them, twice.
	w.remote.do("mv /d /e")
	cut := &cutter{Peer: w.remote.server}
	w.cfg.Remote = cut
	for left := 1000; ; left += 3000 {
		w.restart()
		cut.set(left, false)
		_, err := w.m.Pull(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
	}
	cut.set(-1, false)
	w.sync()
	w.rest()
}

// While one block is applied, the content of the next one is sent.
func TestPushOverlaps(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /a one")
	_, err := w.local.tree.Update(t.Context(), func(e *tree.Edit) error {
		for i := range smallEntries {
			if err := e.PutFile(fmt.Sprintf("/d/%05d", i), tree.File{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.local.do("write /z two")
	w.cfg.Remote = &overlapping{Peer: w.remote.server, sent: make(chan struct{})}
	w.smallBlocks()
	w.sync()
	w.same()
}

// An overlapping Peer applies its first push once all content is here.
type overlapping struct {
	changes.Peer
	sent   chan struct{}
	pushed bool
}

func (o *overlapping) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	last := false
	err := o.Peer.PushObjects(ctx, changes.FromFunc(func(ctx context.Context) (tree.Data, error) {
		d, err := objects.Next(ctx)
		if err != nil && !errors.Is(err, io.EOF) {
			return d, err
		}
		last = last || string(d.Bytes) == "two"
		return d, err
	}, objects.Close))
	if last {
		close(o.sent)
	}
	return err
}

func (o *overlapping) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	if !o.pushed {
		o.pushed = true
		select {
		case <-o.sent:
		case <-ctx.Done():
			return changes.PushResult{}, context.Cause(ctx)
		}
	}
	return o.Peer.Push(ctx, in, entries)
}

// A busy Peer changes while content is sent to it.
type busy struct {
	changes.Peer
	change func()
}

func (b *busy) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	err := b.Peer.PushObjects(ctx, objects)
	b.change()
	return err
}

// What changes there between the pull and the push is not overwritten unseen.
func TestChangedMeanwhile(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	w.local.do("write /f base", "write /g base")
	w.sync()
	left := 1
	w.cfg.Remote = &busy{w.remote.server, func() {
		if left--; left >= 0 {
			w.remote.do("write /f R")
		}
	}}
	w.restart()
	w.local.do("write /f L")
	w.sync()
	w.wantConflicts("/f: " + hash("L") + " / " + hash("R") + ", kept both copy /f.conflict-" + copyHash("L"))
	w.rest()

	// One that never rests gets what there is all the same.
	left = 1 << 30
	w.local.do("write /g L")
	n := 0
	w.cfg.Remote = &busy{w.remote.server, func() { n++; w.remote.do(fmt.Sprintf("write /other %d", n)) }}
	w.restart()
	if _, err := w.m.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.remote.list(); !slices.Contains(got, "/g 644 L") {
		t.Errorf("remote %q", got)
	}
	w.cfg.Remote = w.remote.server
	w.restart()
	w.sync()
	w.rest()
}
