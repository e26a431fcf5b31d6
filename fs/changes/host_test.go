package changes_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// The ways in which hosts speak (sync.md section 9).
const (
	oldStyle  = "old"    // up to 0.2.1: one push of all, without a cursor
	newStyle  = "blocks" // from 0.3.1 on: blocks with cursors
	packStyle = "packs"  // the same, in packs
)

// A host is the reference for what drives a server: it keeps a tree of its own, and the
// cursors of the server in it. Its own end is a Server too, so that pulling is pushing
// the other way round.
type host struct {
	*end
	style string
	block int // entries in a block or batch
	// pulled is our revision as long as all above the push cursor is what was pulled.
	pulled int64
	// toward is the server's revision that a pull was on its way to which has not ended, 0 for
	// none. An older copy of the server's may have in the part that was read what changed later.
	toward int64
}

const serverID = changes.DefaultPeer // under which the host's own end stores its fetch cursor

func (h *host) peer(ctx context.Context) (tree.Peer, error) { return h.tree.Peer(ctx, serverID) }

// set stores cursors, backwards too.
func (h *host) set(ctx context.Context, change func(*tree.Peer)) error {
	_, err := h.tree.Update(ctx, func(e *tree.Edit) error {
		p, err := e.Tx().Peer(1, serverID)
		if err != nil && !errors.Is(err, tree.ErrNoRow) {
			return err
		}
		p.ID = serverID
		change(&p)
		return e.ResetPeer(p)
	})
	return err
}

// connect is what a session begins with.
func (h *host) connect(ctx context.Context, remote changes.Peer) error {
	w, err := remote.Watermarks(ctx, false)
	if err != nil {
		return err
	}
	p, err := h.peer(ctx)
	if err != nil {
		return err
	}
	older := w.CurrentRev < max(p.Fetch.Rev, h.toward)
	if !older && w.Fetch.Compare(p.Push) >= 0 {
		return nil
	}
	if older {
		h.toward = 0
	}
	return h.set(ctx, func(p *tree.Peer) {
		if older {
			p.Fetch = tree.Cursor{}
		}
		if w.Fetch.Compare(p.Push) < 0 {
			p.Push = tree.Cursor{}
		}
	})
}

// push sends what has changed here.
func (h *host) push(ctx context.Context, remote changes.Peer) error {
	w, err := h.Watermarks(ctx, true)
	if err != nil {
		return err
	}
	p, err := h.peer(ctx)
	if err != nil {
		return err
	}
	target := tree.At(w.CurrentRev)
	if h.style == oldStyle {
		if target.Rev <= p.Push.Rev {
			return nil
		}
		return h.sendBlock(ctx, remote, p.Push, target, 1<<30)
	}
	for at := p.Push; ; {
		if h.style == packStyle {
			err = h.sendPack(ctx, remote, at, target)
		} else {
			err = h.sendBlock(ctx, remote, at, target, h.block)
		}
		if err != nil {
			return err
		}
		if p, err = h.peer(ctx); err != nil || p.Push.Compare(target) >= 0 {
			return err
		}
		at = p.Push
	}
}

func (h *host) sendBlock(ctx context.Context, remote changes.Peer, after, target tree.Cursor, most int) error {
	f, err := h.FetchChanges(ctx, changes.FetchQuery{After: after, Through: &target, Ignore: []string{}})
	if err != nil {
		return err
	}
	defer f.Entries.Close(nil)
	cursor := target
	var block []tree.Entry
	for {
		e, err := f.Entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(block) == most {
			cursor = changes.After(&block[most-1])
			break
		}
		block = append(block, e)
	}
	if err := move(ctx, h.Server, remote, block); err != nil {
		return err
	}
	in := changes.PushInput{SenderRev: target.Rev}
	if h.style != oldStyle {
		in.Cursor = &cursor
	}
	out, err := remote.Push(ctx, in, changes.FromSlice(block))
	if err != nil {
		return err
	}
	if out.AppliedPushCursor.Compare(cursor) < 0 {
		return fmt.Errorf("pushed to %v, and applied is %v", cursor, out.AppliedPushCursor)
	}
	return h.set(ctx, func(p *tree.Peer) { p.Push = cursor })
}

// move brings the objects of entries from one end to the other.
func move(ctx context.Context, from, to changes.Peer, entries []tree.Entry) error {
	hashes := hashesOf(entries)
	if len(hashes) == 0 {
		return nil
	}
	held, err := to.HasObjects(ctx, hashes)
	if err != nil {
		return err
	}
	has := map[tree.Hash]bool{}
	for _, h := range held {
		has[h] = true
	}
	var missing []tree.Hash
	for _, h := range hashes {
		if !has[h] {
			missing = append(missing, h)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	objects, err := from.FetchObjects(ctx, missing)
	if err != nil {
		return err
	}
	return to.PushObjects(ctx, objects)
}

func hashesOf(entries []tree.Entry) []tree.Hash {
	var out []tree.Hash
	seen := map[tree.Hash]bool{}
	for _, e := range entries {
		for _, p := range e.Parts {
			if !seen[p.Hash] {
				seen[p.Hash] = true
				out = append(out, p.Hash)
			}
		}
	}
	return out
}

const generation = "g"

func (h *host) sendPack(ctx context.Context, remote changes.Peer, after, target tree.Cursor) error {
	p, err := h.FetchChangePack(ctx, changes.PackQuery{
		FetchQuery: changes.FetchQuery{After: after, Through: &target, Ignore: []string{}},
		MaxEntries: h.block, MaxBytes: 1 << 20, Generation: generation,
	})
	if err != nil {
		return err
	}
	out, err := remote.ApplyChangePack(ctx, generation, p.Pieces)
	if err != nil {
		return err
	}
	if out.AppliedPushCursor.Compare(p.Cursor) < 0 || out.Entries != p.Entries {
		return fmt.Errorf("packed %d to %v, and applied is %+v", p.Entries, p.Cursor, out)
	}
	return h.set(ctx, func(q *tree.Peer) { q.Push = p.Cursor })
}

// pull takes what has changed there. A second failure to agree on cursors is an error.
func (h *host) pull(ctx context.Context, remote changes.Peer) error {
	before, err := h.peer(ctx)
	if err != nil {
		return err
	}
	h.pulled = 0
	if rev := h.marks().CurrentRev; before.Push.Compare(tree.At(rev)) >= 0 {
		h.pulled = rev
	}
	for try := 0; ; try++ {
		err := h.pullOnce(ctx, remote)
		if !errors.Is(err, errAgain) {
			if err == nil && h.style != oldStyle && h.pulled > 0 && h.marks().CurrentRev == h.pulled {
				return h.acknowledge(ctx, remote)
			}
			return err
		}
		if try == 1 {
			return fmt.Errorf("twice: %w", err)
		}
	}
}

var errAgain = errors.New("the cursors do not agree")

// acknowledge says that our revisions to here only hold what was pulled.
func (h *host) acknowledge(ctx context.Context, remote changes.Peer) error {
	at := tree.At(h.pulled)
	if _, err := remote.Push(ctx, changes.PushInput{SenderRev: at.Rev, Cursor: &at}, changes.FromSlice[tree.Entry](nil)); err != nil {
		return err
	}
	return h.set(ctx, func(p *tree.Peer) { p.Push = at })
}

func (h *host) pullOnce(ctx context.Context, remote changes.Peer) error {
	p, err := h.peer(ctx)
	if err != nil {
		return err
	}
	if h.style == packStyle {
		return h.pullPacks(ctx, remote, p)
	}
	f, err := remote.FetchChanges(ctx, changes.FetchQuery{After: p.Fetch, Ignore: []string{}})
	if err != nil {
		return err
	}
	defer f.Entries.Close(nil)
	if again, err := h.disagree(ctx, f.Current, f.AppliedPush, p); again {
		return err
	}
	h.toward = f.Current.Rev
	for {
		var batch []tree.Entry
		for len(batch) < h.block && err == nil {
			var e tree.Entry
			if e, err = f.Entries.Next(ctx); err == nil {
				batch = append(batch, e)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(batch) > 0 {
			if err := move(ctx, remote, h.Server, batch); err != nil {
				return err
			}
			if err := h.take(ctx, changes.After(&batch[len(batch)-1]), batch); err != nil {
				return err
			}
		}
		if err != nil {
			if err = h.take(ctx, f.Current, nil); err == nil {
				h.toward = 0
			}
			return err
		}
	}
}

// disagree resets cursors that the server cannot have been asked with.
func (h *host) disagree(ctx context.Context, current, applied tree.Cursor, p tree.Peer) (bool, error) {
	if applied.Rev >= p.Push.Rev && current.Compare(p.Fetch) >= 0 {
		return false, nil
	}
	err := h.set(ctx, func(q *tree.Peer) {
		if applied.Rev < p.Push.Rev {
			q.Push = tree.Cursor{}
		}
		if current.Compare(p.Fetch) < 0 {
			q.Fetch = tree.Cursor{}
		}
	})
	return true, errors.Join(errAgain, err)
}

// take applies what was pulled, with the cursor.
func (h *host) take(ctx context.Context, at tree.Cursor, batch []tree.Entry) error {
	if at.Rev == 0 {
		return nil
	}
	out, err := h.Push(ctx, changes.PushInput{SenderRev: at.Rev, Cursor: &at}, changes.FromSlice(batch))
	h.made(out.Before, out.Rev)
	return err
}

// made notes that revisions hold what was pulled.
func (h *host) made(before, rev int64) {
	if before > h.pulled {
		h.pulled = 0
	}
	if h.pulled > 0 {
		h.pulled = rev
	}
}

func (h *host) pullPacks(ctx context.Context, remote changes.Peer, p tree.Peer) error {
	for at := p.Fetch; ; {
		got, err := remote.FetchChangePack(ctx, changes.PackQuery{
			FetchQuery: changes.FetchQuery{After: at, Ignore: []string{}}, MaxEntries: h.block, MaxBytes: 1 << 20, Generation: generation,
		})
		if err != nil {
			return err
		}
		if again, err := h.disagree(ctx, got.Cursor, got.AppliedPush, p); again {
			got.Pieces.Close(err)
			return err
		}
		pieces, err := changes.Collect(ctx, got.Pieces)
		if err != nil {
			return err
		}
		if !got.Drained {
			w, err := remote.Watermarks(ctx, false)
			if err != nil {
				return err
			}
			h.toward = w.CurrentRev
		}
		before := h.marks().CurrentRev
		if _, err := h.ApplyChangePack(ctx, generation, changes.FromSlice(pieces)); err != nil {
			return err
		}
		h.made(before, h.marks().CurrentRev)
		if at = got.Cursor; got.Drained {
			h.toward = 0
			return nil
		}
	}
}

// sync is one session: what has changed here is sent before what has changed there is
// taken, as around a command, or after, as in a tick.
func (h *host) sync(ctx context.Context, remote changes.Peer, pullFirst bool) error {
	steps := []func(context.Context, changes.Peer) error{h.connect, h.push, h.pull}
	if pullFirst {
		steps[1], steps[2] = h.pull, h.push
	}
	for _, step := range steps {
		if err := step(ctx, remote); err != nil {
			return err
		}
	}
	return nil
}
