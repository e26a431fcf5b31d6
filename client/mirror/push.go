package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// errMoved says that the remote has changes that were not pulled, or that files here have
// changed while their content was to be sent.
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
	if err := m.rereadLeft(ctx); err != nil {
		return err
	}
	if none, err := m.onlyWaiting(ctx); none || err != nil {
		return err
	}
	list, err := m.changesHere(ctx)
	if err != nil {
		return err
	}
	if m.s.peer.Push.Compare(list.upTo) >= 0 {
		return nil
	}
	m.meter.count(func(p *Progress) { p.ToPush = p.Pushed + int64(list.n) })
	return m.pushList(ctx, list, r, careful)
}

// pushList sends what a list has.
func (m *Mirror) pushList(ctx context.Context, list *changeList, r *Result, careful bool) error {
	known := m.known() // the last stage changes it
	asked, full := make(chan *block), make(chan *block)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { // ends with the list, or with ctx
		defer close(asked)
		return m.makeBlocks(ctx, list, known, asked)
	})
	group.Go(func() error { // ends with the one before it
		defer close(full)
		return m.pushObjects(ctx, asked, full, r)
	})
	moved := false
	group.Go(func() error {
		for b := range full {
			if (careful && !m.checksBase || m.unmixed() && !m.checksAlone) && len(b.entries) > 0 {
				if err := m.unmoved(ctx); err != nil {
					return err
				}
			}
			if err := m.keepWithheld(ctx, b, r); err != nil {
				return err
			}
			again, err := m.pushBlock(ctx, b, r)
			if tooManyConflicts(err) && len(b.entries) > changes.MaxConflicts {
				again, err = m.pushPieces(ctx, b, r)
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

// makeBlocks reads what changed and asks which content of it the remote has.
func (m *Mirror) makeBlocks(ctx context.Context, list *changeList, known known, out chan<- *block) error {
	moved := renamed{gone: list.gone, content: map[tree.Hash]bool{}}
	most, lacking := m.limits.entries, func(ctx context.Context, ask []tree.Hash) ([]tree.Hash, error) {
		return m.lackingOf(ctx, ask, moved.content)
	}
	if !m.checksBase {
		most, lacking = m.limits.plain, m.lackingThere
	}
	back, notes := m.holdBack(&known), known.notes
	p := newPacker(list.from, m.limits, most, lacking, func(ctx context.Context, b *block) error {
		b.rev = list.upTo.Rev
		if err := back.sparing(ctx, b); err != nil {
			return err
		}
		m.meter.count(func(p *Progress) { p.BytesToPush += b.bytes })
		return handOver(ctx, out, b)
	})
	cursor := list.from
	for {
		entries, err := list.next(ctx, page)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := range entries {
			at := after(&entries[i])
			cursor = m.sendable(at, cursor)
			s := item{entry: entries[i], path: entries[i].Path, at: cursor}
			e := &s.entry
			moved.note(e)
			path, ok := m.roots.toRemote(e.Path)
			if !ok || m.filter.plain && isRawLink(e) || // the remote can not have it, and keeps what it has
				notes.Pulled.has(e.Rev) || known.agreedOn(e, e.Path, at, notes.AgreedPush) || m.roots.isRoot(e.Path) || back.ignores(&s) {
				s.out = true
			} else {
				back.decide(&s)
				s.parts, e.Path, e.RenamedTo = e.Parts, path, m.renamedThere(e.RenamedTo)
			}
			if err := p.add(ctx, &s); err != nil {
				return err
			}
		}
		if err == nil {
			continue
		}
		if list.more == nil {
			return p.end(ctx, list.upTo)
		}
		if err := p.flush(ctx, list.upTo); err != nil {
			return err
		}
		if list, err = list.more(ctx); err != nil {
			return err
		}
	}
}

// renamed finds content that stands under another name now than before: the remote has it if it
// had the version that was removed.
type renamed struct {
	gone    map[string]bool // fingerprints of what was removed
	content map[tree.Hash]bool
}

func (r *renamed) note(e *tree.Entry) {
	switch {
	case e.Kind == tree.KindDelete && e.Prior != "":
		r.gone[e.Prior] = true
	case e.Kind == tree.KindFile && len(r.gone) > 0 && r.gone[tree.Fingerprint(e)]:
		for _, p := range e.Parts {
			r.content[p.Hash] = true
		}
	}
}

// lackingOf is lackingThere, for content of which some is likely there. About that a few
// questions do, if the answers are as expected.
func (m *Mirror) lackingOf(ctx context.Context, ask []tree.Hash, likely map[tree.Hash]bool) ([]tree.Hash, error) {
	var first, rest []tree.Hash
	for _, h := range ask {
		if likely[h] {
			rest = append(rest, h)
		} else {
			first = append(first, h)
		}
	}
	every := len(rest) / maxSampled
	if every < 2 {
		return m.lackingThere(ctx, ask)
	}
	var left []tree.Hash
	for i, h := range rest {
		if i%every == 0 {
			first = append(first, h)
		} else {
			left = append(left, h)
		}
	}
	lacking, err := m.lackingThere(ctx, first)
	if err != nil || !slices.ContainsFunc(lacking, func(h tree.Hash) bool { return likely[h] }) {
		return lacking, err
	}
	more, err := m.lackingThere(ctx, left)
	return append(lacking, more...), err
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
	gone, full := map[tree.Hash]bool{}, noRoom{}
	for b := range in {
		m.leaveWaiting(b)
		err := m.sendFitting(ctx, b.objects, b.entries, gone, full, func(bytes int) {
			r.ObjectsOut++
			r.BytesOut += int64(bytes)
		})
		if err == nil {
			m.leaveRefused(b, full)
			m.leaveVanished(b, gone)
			err = handOver(ctx, out, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendObjects sends content of entries. gone takes the hashes of what this side has no more.
func (m *Mirror) sendObjects(ctx context.Context, hashes []tree.Hash, entries []tree.Entry, gone map[tree.Hash]bool, sent func(bytes int)) error {
	last := lastWindows(entries, hashes)
	for len(hashes) > 0 {
		some := hashes[:min(len(hashes), m.limits.ask)]
		hashes = hashes[len(some):]
		if err := m.cfg.Remote.PushObjects(ctx, m.objects(some, last, gone, sent)); err != nil {
			return fmt.Errorf("send content: %w", err)
		}
	}
	return nil
}

// lastWindows are those of some chunks that are the last one of a file that moves, in the order of the
// entries. Those whose size tells are left out.
func lastWindows(entries []tree.Entry, moving []tree.Hash) map[tree.Hash]bool {
	var last, left map[tree.Hash]bool
	for i := range entries {
		parts := entries[i].Parts
		if n := len(parts); n == 0 || parts[n-1].Size < tree.ChunkSize {
			continue
		}
		if left == nil {
			left, last = make(map[tree.Hash]bool, len(moving)), map[tree.Hash]bool{}
			for _, h := range moving {
				left[h] = true
			}
		}
		for k := len(parts) - 1; k >= 0; k-- {
			if left[parts[k].Hash] {
				last[parts[k].Hash] = true
				break
			}
		}
	}
	return last
}

// objects is the content of some hashes, read when it is asked for.
func (m *Mirror) objects(hashes []tree.Hash, last, gone map[tree.Hash]bool, sent func(bytes int)) changes.Stream[tree.Data] {
	return changes.FromFunc(func(ctx context.Context) (tree.Data, error) {
		for len(hashes) > 0 {
			h := hashes[0]
			data, err := m.forest.Chunk(ctx, h, nil)
			if err != nil && !errors.Is(err, tree.ErrUnknownHash) {
				return tree.Data{}, err
			}
			hashes = hashes[1:]
			if err != nil {
				gone[h] = true
				continue
			}
			sent(len(data))
			m.meter.count(func(p *Progress) { p.ObjectsOut++; p.BytesOut += int64(len(data)) })
			return tree.Data{Hash: h, Bytes: data, Last: last[h]}, nil
		}
		return tree.Data{}, io.EOF
	}, nil)
}

// vanished remembers the paths whose content was found to be gone in a call of the mirror.
type vanished struct {
	mu   sync.Mutex
	seen map[string]gone
}

// A gone is a version whose content was gone, and how often other versions of its path were before it.
type gone struct {
	print string
	n     int
}

// leaveVanished leaves entries of a block out whose content is gone: their files have changed
// since they were listed. They are sent again. One that has not changed cannot be read: it waits, and so
// does one that changes over and over.
func (m *Mirror) leaveVanished(b *block, lost map[tree.Hash]bool) {
	m.vanished.mu.Lock()
	defer m.vanished.mu.Unlock()
	for _, e := range b.leaveOut(func(e *tree.Entry) bool { return isGone(e, lost) }) {
		path, _ := m.roots.toLocal(e.Path)
		was, now := m.vanished.seen[path], tree.Fingerprint(&e)
		if was.print == now || was.n == maxVanished {
			m.leave(b, &e, &m.unread)
			continue
		}
		m.vanished.seen[path] = gone{now, was.n + 1}
		b.vanished = append(b.vanished, path)
		delete(b.holds, path)
	}
}

// leaveOut leaves out the entries that is selects, and returns them.
func (b *block) leaveOut(is func(*tree.Entry) bool) (out []tree.Entry) {
	if !slices.ContainsFunc(b.entries, func(e tree.Entry) bool { return is(&e) }) {
		return nil
	}
	kept := b.entries[:0]
	for _, e := range b.entries {
		if is(&e) {
			out = append(out, e)
		} else {
			kept = append(kept, e)
		}
	}
	b.entries = kept
	return out
}

// pushAgain is the Push of a block of which the remote has lost some content since it was asked.
func (m *Mirror) pushAgain(ctx context.Context, in changes.PushInput, b *block, err error) (changes.PushResult, error) {
	var res changes.PushResult
	for range maxVanished {
		if changes.Code(err) != tree.Code(tree.ErrUnknownHash) {
			break
		}
		lacking, err2 := m.lackingThere(ctx, hashesOf(b.entries, allParts))
		if err2 != nil || len(lacking) == 0 {
			return res, errors.Join(err, err2)
		}
		gone, full := map[tree.Hash]bool{}, noRoom{}
		if err = m.sendFitting(ctx, lacking, b.entries, gone, full, func(int) {}); err != nil {
			return res, err
		}
		m.leaveRefused(b, full)
		m.leaveVanished(b, gone)
		res, err = m.remote().Push(ctx, in, changes.FromSlice(b.entries))
	}
	return res, err
}

// allParts is the content of an entry, also of one that does not come over.
func allParts(e *tree.Entry) []tree.Part { return e.Parts }

// hashesOf is the content of entries, each once.
func hashesOf(entries []tree.Entry, parts func(*tree.Entry) []tree.Part) []tree.Hash {
	var all []tree.Hash
	seen := map[tree.Hash]bool{}
	for i := range entries {
		for _, p := range parts(&entries[i]) {
			if !seen[p.Hash] {
				seen[p.Hash] = true
				all = append(all, p.Hash)
			}
		}
	}
	return all
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
// are to be sent again, since they have changed meanwhile, here or there.
func (m *Mirror) pushBlock(ctx context.Context, b *block, r *Result) (bool, error) {
	in := changes.PushInput{SenderRev: b.rev, Cursor: &b.cursor, Partly: true, Times: m.setsTimes, Ignore: m.filter.names}
	if len(b.spare) > 0 {
		in.Ignore = b.spare
	}
	if m.checksBase {
		base := m.s.peer.Fetch
		in.Base = &base
		in.Alone = m.unmixed()
	} else if !m.s.unanswered() && m.s.notes.Lost == 0 {
		b.removeAll()
	}
	sent := m.s.sent
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
	res, err := m.remote().Push(ctx, in, changes.FromSlice(b.entries))
	for err != nil && m.leaveTooLarge(b, err) {
		res, err = m.remote().Push(ctx, in, changes.FromSlice(b.entries))
	}
	if err != nil {
		res, err = m.pushAgain(ctx, in, b, err)
	}
	if changes.Code(err) == changes.CodeUnseen { // nothing of it was applied
		next := m.s
		next.sent = sent
		return false, cmp.Or(m.commit(ctx, next), ErrNotBlank)
	}
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
	back := &returned{next: next.notes.TheirLost, pass: next.notes.Pass, gone: next.notes.Gone}
	if len(res.Overtaken) > 0 {
		if back, err = m.giveBackSince(ctx, back.next, tree.At(res.Rev)); err != nil {
			return false, err
		}
		back.gone = next.notes.Gone
	}
	next.peer.Push = b.cursor
	next.held = next.held.afterPush(m, b, again).with(b.holds)
	if len(b.blocked) > 0 {
		if next.rules, err = next.rules.with(b.blocked); err != nil {
			return false, err
		}
	}
	if next.ignored, err = next.ignored.afterPush(m, b, &res); err != nil {
		return false, err
	}
	if len(b.entries) > 0 {
		next.notes.Blank = false
		next.notes.Left = next.notes.leaving(nil, m.livePaths(b.entries, true))
		told := res.Before > 0 && res.Before <= res.Rev
		if told {
			next.notes.Pushed = next.notes.Pushed.add(res.Before, res.Rev)
			if in.Base == nil && tree.At(res.Before).Compare(next.peer.Fetch) > 0 && next.peer.Fetch.Rev > 0 {
				m.log.Warn("the remote has changed just before a push; the same paths were overwritten", "before", res.Before, "fetched", next.peer.Fetch.Rev)
			}
		}
		next.sent = next.sent.answered(b.entries, res.Rev, told)
	}
	if err := m.storeReturned(ctx, next.tidied(), back, slices.Concat(again, b.vanished, b.refused), r); err != nil {
		return false, err
	}
	m.noteStuck(b, &res)
	n := len(b.entries) - len(again)
	if same := m.unchanged(b, n, &res); same > 0 && same == n {
		r.Same += same
	} else {
		r.Same += max(same, m.noteSent(b, again))
	}
	r.Pushed += n
	m.tellStayed(m.stayedOf(res.Kept, true), r)
	m.tellStayed(m.spared(b), r)
	m.disowned(res.Disowned, res.MoreDisowned, true, r)
	m.meter.count(func(p *Progress) { p.Pushed += int64(n) })
	return len(again) > 0 || len(back.paths) > 0 || len(b.vanished) > 0, nil
}

// tooManyConflicts reports whether a remote may have refused a push since more of its paths
// have changed there than it names. Nothing of the push is applied.
func tooManyConflicts(err error) bool { return err != nil && changes.Code(err) == changes.CodeProtocol }

// pushPieces is pushBlock for one that was too much.
func (m *Mirror) pushPieces(ctx context.Context, b *block, r *Result) (bool, error) {
	moved := false
	for _, piece := range m.pieces(b) {
		again, err := m.pushBlock(ctx, piece, r)
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
