package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// errMoved says that the remote has changes that were not pulled.
var errMoved = errors.New("the remote has changed")

// push sends what there is. It ends with errMoved when the remote has changes of the same
// paths that were not pulled; those paths are left. A remote that does not look is asked
// before, with careful: whatever it has changed ends the push.
func (m *Mirror) push(ctx context.Context, r *Result, careful bool) error {
	if changed, err := m.rereadRules(ctx); err != nil {
		return fmt.Errorf("push: %w", err)
	} else if changed {
		m.rulesMoved = true
		return errMoved // all is listed anew, and what the remote has comes first
	}
	if err := m.twice(ctx, func() error { return m.pushOnce(ctx, r, careful) }); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	return nil
}

// pushOnce sends what there is. While the remote applies one block, the content of the
// next one is sent, and the one after that is looked for.
func (m *Mirror) pushOnce(ctx context.Context, r *Result, careful bool) error {
	if err := m.mayPush(ctx); err != nil {
		return err
	}
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push, Ignore: m.filter.names})
	if err != nil {
		return err
	}
	target := list.Current
	if m.s.peer.Push.Compare(target) >= 0 {
		return nil
	}
	m.meter.count(func(p *Progress) { p.ToPush = p.Pushed + int64(list.Len()) })
	known := m.known() // the last stage changes it
	asked, full := make(chan *block), make(chan *block)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { // ends with the list, or with ctx
		defer close(asked)
		return m.makeBlocks(ctx, list.Next, target, known, asked)
	})
	group.Go(func() error { // ends with the one before it
		defer close(full)
		return m.pushObjects(ctx, asked, full, r)
	})
	moved := false
	group.Go(func() error {
		for b := range full {
			if careful && !m.checksBase && len(b.entries) > 0 {
				if err := m.unmoved(ctx); err != nil {
					return err
				}
			}
			again, err := m.pushBlock(ctx, b, target, r)
			if tooManyConflicts(err) && len(b.entries) > changes.MaxConflicts {
				again, err = m.pushPieces(ctx, b, target, r)
			}
			if err != nil {
				return err
			}
			moved = moved || again
		}
		return nil
	})
	if err := group.Wait(); err != nil || !moved {
		return err
	}
	return errMoved
}

// makeBlocks reads what changed up to a target and asks which content of it the remote has.
func (m *Mirror) makeBlocks(ctx context.Context, next func(context.Context, int) ([]tree.Entry, error), target tree.Cursor, known known, out chan<- *block) error {
	most := m.limits.entries
	if !m.checksBase {
		most = m.limits.plain
	}
	back, notes := m.holdBack(&known), known.notes
	p := newPacker(m.limits, most, m.lackingThere, func(ctx context.Context, b *block) error {
		back.sparing(b)
		m.meter.count(func(p *Progress) { p.BytesToPush += b.bytes })
		return handOver(ctx, out, b)
	})
	for {
		entries, err := next(ctx, page)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := range entries {
			s := item{entry: entries[i], path: entries[i].Path, at: after(&entries[i])}
			e := &s.entry
			path, ok := m.roots.toRemote(e.Path)
			if !ok || notes.Pulled.has(e.Rev) || known.agreed(e.Path, s.at, notes.AgreedPush) || m.roots.isRoot(e.Path) || back.ignores(&s) {
				s.out = true
			} else {
				back.decide(&s)
				s.parts, e.Path = e.Parts, path
			}
			if err := p.add(ctx, &s); err != nil {
				return err
			}
		}
		if err != nil {
			return p.end(ctx, target)
		}
	}
}

// handOver passes something on to the next stage.
func handOver[T any](ctx context.Context, out chan<- T, x T) error {
	select {
	case out <- x:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lackingThere returns those of some hashes whose content the remote does not have.
func (m *Mirror) lackingThere(ctx context.Context, ask []tree.Hash) ([]tree.Hash, error) {
	held, err := m.cfg.Remote.HasObjects(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("ask what the remote has: %w", err)
	}
	var lacking []tree.Hash
	for _, h := range ask {
		// The answer is in the order of the question.
		if len(held) > 0 && held[0] == h {
			held = held[1:]
			continue
		}
		lacking = append(lacking, h)
	}
	if len(held) > 0 {
		return nil, &InvariantError{"it says that it has content that it was not asked for"}
	}
	return lacking, nil
}

// pushObjects sends the content of blocks, before they are passed on.
func (m *Mirror) pushObjects(ctx context.Context, in <-chan *block, out chan<- *block, r *Result) error {
	for b := range in {
		for rest := b.objects; len(rest) > 0; {
			some := rest[:min(len(rest), m.limits.ask)]
			rest = rest[len(some):]
			if err := m.cfg.Remote.PushObjects(ctx, m.objects(some, r)); err != nil {
				return fmt.Errorf("send content: %w", err)
			}
		}
		if err := handOver(ctx, out, b); err != nil {
			return err
		}
	}
	return nil
}

// objects is the content of some hashes, read when it is asked for.
func (m *Mirror) objects(hashes []tree.Hash, r *Result) changes.Stream[tree.Data] {
	return changes.FromFunc(func(ctx context.Context) (tree.Data, error) {
		if len(hashes) == 0 {
			return tree.Data{}, io.EOF
		}
		data, err := m.forest.Chunk(ctx, hashes[0], nil)
		if err != nil {
			return tree.Data{}, err
		}
		d := tree.Data{Hash: hashes[0], Bytes: data}
		hashes = hashes[1:]
		r.ObjectsOut++
		r.BytesOut += int64(len(data))
		m.meter.count(func(p *Progress) { p.ObjectsOut++; p.BytesOut += int64(len(data)) })
		return d, nil
	}, nil)
}

// unmoved fails with errMoved if the remote has changed since the pull. From then on until
// a push is applied it may still do so; changes of the same paths then are lost to it, as
// among all who use this protocol.
func (m *Mirror) unmoved(ctx context.Context) error {
	if m.s.sent.Until > 0 {
		return nil // it moves with each push, and does not say how far
	}
	wm, err := m.cfg.Remote.Watermarks(ctx, true)
	if err != nil {
		return fmt.Errorf("read the remote's watermarks: %w", err)
	}
	if m.s.peer.Fetch.Compare(tree.At(wm.CurrentRev)) < 0 {
		return errMoved
	}
	return nil
}

// pushBlock has a block applied and stores that it was. It reports whether some of its paths
// are to be sent again, since the remote has changed them as well.
func (m *Mirror) pushBlock(ctx context.Context, b *block, target tree.Cursor, r *Result) (bool, error) {
	in := changes.PushInput{SenderRev: target.Rev, Cursor: &b.cursor, Partly: true, Times: m.setsTimes, Ignore: m.filter.names}
	if len(b.spare) > 0 {
		in.Ignore = b.spare
	}
	if m.checksBase {
		base := m.s.peer.Fetch
		in.Base = &base
	} else if !m.s.unanswered() && m.s.notes.Lost == 0 {
		b.removeAll()
	}
	if len(b.entries) > 0 {
		// Should we not get the answer, this tells later what may come back of it.
		next := m.s
		next.sent = next.sent.with(b.entries)
		if next.notes.TheirLost == 0 {
			next.notes.TheirLost = m.theirLost + 1
		}
		if err := m.commit(ctx, next); err != nil {
			return false, err
		}
		m.heard = nil
	}
	res, err := m.cfg.Remote.Push(ctx, in, changes.FromSlice(b.entries))
	if err != nil {
		return false, fmt.Errorf("send changes: %w", err)
	}
	if res.AppliedPushCursor.Compare(b.cursor) < 0 {
		return false, &InvariantError{fmt.Sprintf("it was sent changes up to revision %d, and says that it is at %d", b.cursor.Rev, res.AppliedPushCursor.Rev)}
	}
	again, err := m.leftOut(b, res.Conflicts)
	if err != nil {
		return false, err
	}
	next := m.s
	var back []string
	if len(res.Overtaken) > 0 {
		if back, next.notes.TheirLost, err = m.giveBackSince(ctx, next.notes.TheirLost, tree.At(res.Rev), r); err != nil {
			return false, err
		}
	}
	next.peer.Push = b.cursor
	next.held = next.held.with(b.holds)
	if next.ignored, err = next.ignored.afterPush(m, b, &res); err != nil {
		return false, err
	}
	if len(b.entries) > 0 {
		told := res.Before > 0 && res.Before <= res.Rev
		if told {
			next.notes.Pushed = next.notes.Pushed.add(res.Before, res.Rev)
			if in.Base == nil && tree.At(res.Before).Compare(next.peer.Fetch) > 0 && next.peer.Fetch.Rev > 0 {
				m.log.Warn("the remote has changed just before a push; the same paths were overwritten", "before", res.Before, "fetched", next.peer.Fetch.Rev)
			}
		}
		next.sent = next.sent.answered(b.entries, res.Rev, told)
	}
	next = next.tidied()
	_, err = m.tree.Update(ctx, func(e *tree.Edit) error {
		for _, path := range slices.Concat(again, back) {
			if err := touch(e, path); err != nil {
				return err
			}
		}
		return m.store(e, &next)
	})
	if err != nil {
		m.loaded = false
		return false, fmt.Errorf("store the cursors: %w", err)
	}
	m.s = next
	sent := len(b.entries) - len(again)
	r.Pushed += sent
	m.tellStayed(m.stayedOf(res.Kept, true), r)
	m.tellStayed(m.spared(b), r)
	m.disowned(res.Disowned, res.MoreDisowned, true, r)
	m.meter.count(func(p *Progress) { p.Pushed += int64(sent) })
	return len(again) > 0 || len(back) > 0, nil
}

// tooManyConflicts reports whether a remote may have refused a push since more of its paths
// have changed there than it names. Nothing of the push is applied.
func tooManyConflicts(err error) bool { return err != nil && changes.Code(err) == changes.CodeProtocol }

// pushPieces is pushBlock for one that was too much.
func (m *Mirror) pushPieces(ctx context.Context, b *block, target tree.Cursor, r *Result) (bool, error) {
	moved := false
	for _, piece := range m.pieces(b) {
		again, err := m.pushBlock(ctx, piece, target, r)
		if err != nil {
			return moved, err
		}
		moved = moved || again
	}
	return moved, nil
}

// removeAll has deletes that are sent for the first time remove whatever there is. A remote
// that does not look at a base may take them for deletes that it has applied, when another
// client's revisions are higher, and then leaves all but the very version that they say.
func (b *block) removeAll() {
	for i := range b.entries {
		b.entries[i].Prior = ""
	}
}

// leftOut returns the local paths of entries of a block that the remote has not applied.
func (m *Mirror) leftOut(b *block, conflicts []string) ([]string, error) {
	if len(conflicts) == 0 {
		return nil, nil
	}
	sent := make(map[string]bool, len(b.entries))
	for i := range b.entries {
		sent[b.entries[i].Path] = true
	}
	out := make([]string, 0, len(conflicts))
	for _, path := range conflicts {
		local, ok := m.roots.toLocal(path)
		if !ok || !sent[path] {
			return nil, &InvariantError{"it has left out a path that it was not sent"}
		}
		out = append(out, local)
		delete(b.holds, local)
	}
	m.log.Info("the remote has changed paths that were about to be sent; they are pulled first", "paths", len(out), "first", out[0])
	return out, nil
}
