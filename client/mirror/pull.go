package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A batch is a block of the remote's, whose entries are as they are called here.
type batch struct {
	block
	toward  int64           // the remote's revision that the pull is on its way to
	lacking map[string]bool // paths of entries whose content the remote has lost, or there is no room for
}

// lack notes that the content of an entry is not to be had for now.
func (b *batch) lack(path string) {
	if b.lacking == nil {
		b.lacking = map[string]bool{}
	}
	b.lacking[path] = true
}

func (m *Mirror) pull(ctx context.Context, r *Result) error {
	if err := m.takeRules(ctx); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	// What a crash has left of an earlier pull is decided first.
	if err := m.bringBack(ctx, r); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if err := m.twice(ctx, func() error { return m.pullByRules(ctx, r) }); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if err := m.removeEmptied(ctx, r); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if err := m.bringBack(ctx, r); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	return nil
}

// target is up to where a pull goes: what the remote has when it begins.
func (m *Mirror) target(ctx context.Context) (tree.Cursor, error) {
	wm, err := m.settled(ctx)
	if err != nil {
		return tree.Cursor{}, err
	}
	if lost := lostBy(&m.s, wm.CurrentRev, wm.Fetch); lost.any() {
		return tree.Cursor{}, &rebaseError{lost}
	}
	return tree.At(wm.CurrentRev), nil
}

// fetch opens the remote's change stream up to the target.
func (m *Mirror) fetch(ctx context.Context, target tree.Cursor) (*changes.Fetch, error) {
	f, err := m.remote().FetchChanges(ctx, changes.FetchQuery{After: m.s.peer.Fetch, Through: &target, Ignore: m.filter.names})
	if err != nil {
		return nil, fmt.Errorf("list the remote's changes: %w", err)
	}
	lost := loss{ours: f.AppliedPush.Compare(m.s.peer.Push) < 0, theirs: f.Current.Compare(m.s.peer.Fetch) < 0}
	if lost.any() {
		f.Entries.Close(nil)
		return nil, &rebaseError{lost}
	}
	f.Entries = m.rooted(f.Entries, m.keepsRoot())
	return f, nil
}

// pullOnce applies what there is. While one batch is applied the next one is fetched.
func (m *Mirror) pullOnce(ctx context.Context, r *Result) error {
	target, err := m.target(ctx)
	if err != nil {
		return err
	}
	full := m.fullHere.isDue()
	if full {
		m.fullHere.forget()
	}
	if moved, err := m.giveBack(ctx, target, r); err != nil {
		return err
	} else if moved {
		if target, err = m.target(ctx); err != nil {
			return err
		}
	}
	if err := m.rereadLeft(ctx); err != nil {
		return err
	}
	next, err := m.allowing(ctx, m.unholding(m.s))
	if err != nil {
		return err
	}
	if full {
		next = m.releasing(next)
	} else if path, err := m.regained(ctx); err != nil {
		return err
	} else if path != "" {
		h, _ := m.s.held.at(path)
		m.found[path], next = h.Remote, m.releasing(next)
	}
	if next.held != m.s.held {
		if err := m.commit(ctx, next); err != nil {
			return err
		}
	}
	if m.policy == Fail {
		if err := m.refuseHeld(ctx); err != nil {
			return err
		}
	}
	if err := m.takeIncomingRules(ctx, target, r); err != nil {
		return err
	}
	if m.s.peer.Fetch.Compare(target) >= 0 {
		return m.refreshed(ctx)
	}
	if m.policy == Fail {
		if err := m.refuse(ctx, target); err != nil {
			return err
		}
	}
	if err := m.mayPush(ctx); err != nil {
		return err
	}
	f, err := m.fetch(ctx, target)
	if err != nil {
		return err
	}
	from, known, keepsRoot := m.s.peer.Fetch, m.known(), m.keepsRoot() // the last stage changes them
	var fetched Result                                                 // by the second stage
	read, ready := make(chan *batch), make(chan *batch)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { // ends with the stream, or with ctx
		defer close(read)
		defer func() { f.Entries.Close(err) }()
		return m.readBatches(ctx, f, from, &known, m.lackingHere, read)
	})
	group.Go(func() error { // ends with the one before it
		defer close(ready)
		return m.fetchContent(ctx, read, ready, &fetched)
	})
	group.Go(func() error {
		var local *localChanges
		listed, rooted := false, false
		for b := range ready {
			if !rooted && !b.last { // else all of the list has been read
				if err := m.readRoot(ctx, keepsRoot); err != nil {
					return err
				}
			}
			rooted = true
			if err := m.staysBlank(b); err != nil {
				return err
			}
			if !listed && len(b.entries) > 0 {
				listed = true
				var err error
				if local, err = m.localChanges(ctx); err != nil {
					return err
				}
				if err := m.mayApply(ctx, target, b, local); err != nil {
					return err
				}
			}
			if err := m.applyBatch(ctx, b, local, r); err != nil {
				return err
			}
		}
		return nil
	})
	err = group.Wait()
	r.ObjectsIn += fetched.ObjectsIn
	r.BytesIn += fetched.BytesIn
	return err
}

// readBatches cuts a change stream into batches, without what came from here. lacking finds
// out which content is to be fetched.
func (m *Mirror) readBatches(ctx context.Context, f *changes.Fetch, from tree.Cursor, known *known, lacking func(context.Context, []tree.Hash) ([]tree.Hash, error), out chan<- *batch) error {
	p := newPacker(from, m.limits, m.limits.entries, lacking, func(ctx context.Context, b *block) error {
		return handOver(ctx, out, &batch{block: *b, toward: f.Current.Rev})
	})
	for last := from; ; {
		e, err := f.Entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			return p.end(ctx, f.Current)
		}
		if err != nil {
			return fmt.Errorf("list the remote's changes: %w", err)
		}
		at := after(&e)
		if at.Compare(last) <= 0 || at.Compare(f.Current) > 0 {
			return &InvariantError{fmt.Sprintf("its changes are not in order: revision %d comes behind %d, up to %d", e.Rev, last.Rev, f.Current.Rev)}
		}
		last = at
		s := item{at: at}
		s.out = !m.wanted(&e, known, &s)
		if s.entry = e; !s.out {
			s.parts = m.partsOf(&e)
		}
		if err := p.add(ctx, &s); err != nil {
			return err
		}
	}
}

// partsOf is the content of an entry that is taken, or kept as what loses.
func (m *Mirror) partsOf(e *tree.Entry) []tree.Part {
	if m.isCode(e.Path, e.Kind) && m.policyAt(e.Path) != Ours {
		return nil
	}
	return e.Parts
}

// known is what readBatches and makeBlocks have to know of the state.
type known struct {
	notes   notes
	rules   *rules
	held    *heldSet
	ignored *ignoredSet
}

func (m *Mirror) known() known { return *m.s.known() }

func (s *state) known() *known { return &known{s.notes, s.rules, s.held, s.ignored} }

// wanted reports whether an entry is to be applied, and gives it its path here. s, if it is not
// nil, says what else there is to know of it.
func (m *Mirror) wanted(e *tree.Entry, k *known, s *item) bool {
	if s == nil {
		s = &item{}
	}
	path, ok := m.roots.toLocal(e.Path)
	if !ok {
		return false
	}
	if !m.comes(path) && m.filter.rules != nil && e.Kind != tree.KindDelete && !m.roots.isRoot(path) {
		if s.top = m.filter.top(path, e.Kind == tree.KindDir); s.top != "" {
			s.hidden = true
			return false
		}
		if k.ignored.has(path) {
			s.top = path
		}
	}
	// A version that was sent from here may have bits that are withheld.
	if h, _ := k.held.covering(path); !h.Stale && (k.notes.Pushed.has(e.Rev) || k.agreedOn(e, path, after(e), k.notes.AgreedFetch)) {
		s.again = k.notes.AgreedPush != (tree.Cursor{}) && (e.Kind == tree.KindDir || e.Kind == tree.KindDelete) && !m.roots.isRoot(path)
		e.Path = path
		return false
	}
	if m.roots.isRoot(path) {
		return false // each side has its own; what was below it has entries
	}
	e.Path, e.RenamedTo = path, m.renamedHere(e.RenamedTo)
	return true
}

// fetchContent gets the content that batches bring, and passes them on.
func (m *Mirror) fetchContent(ctx context.Context, in <-chan *batch, out chan<- *batch, r *Result) error {
	gone := map[tree.Hash]bool{}
	for b := range in {
		if err := m.fetchFitting(ctx, b, b.objects, gone, r); err != nil {
			return err
		}
		if err := m.drop(ctx, b, gone); err != nil {
			return err
		}
		m.meter.count(func(p *Progress) { p.ToPull += int64(len(b.entries)) })
		if err := handOver(ctx, out, b); err != nil {
			return err
		}
	}
	return nil
}

// withContent runs fn with the content of entries, but for what is gone from the remote too. It
// does so again while some vanishes, since the file here that had it has changed. full, unless it is nil, takes
// the hashes of what there is no room for here.
func (m *Mirror) withContent(ctx context.Context, entries []tree.Entry, full noRoom, r *Result, fn func(gone map[tree.Hash]bool) error) error {
	for attempt := 1; ; attempt++ {
		gone := map[tree.Hash]bool{}
		missing, err := m.lackingHere(ctx, hashesOf(entries, allParts))
		if err == nil && full != nil {
			err = m.fetchSome(ctx, missing, entries, gone, full, r)
		} else if err == nil {
			err = m.fetchAll(ctx, missing, entries, gone, r)
		}
		if err != nil {
			return err
		}
		if err := fn(gone); !errors.Is(err, tree.ErrUnknownHash) || attempt == maxTries {
			return err
		}
	}
}

// fetchAll gets content of entries. gone takes the hashes that the remote does not have, also once it
// has looked at its disk: what a path has for a moment only is no change, and does not come again.
func (m *Mirror) fetchAll(ctx context.Context, missing []tree.Hash, entries []tree.Entry, gone map[tree.Hash]bool, r *Result) error {
	last := lastWindows(entries, missing)
	again, err := m.fetchEach(ctx, missing, last, r)
	if err != nil || len(again) == 0 {
		return err
	}
	if _, err := m.cfg.Remote.Watermarks(ctx, true); err != nil {
		return fmt.Errorf("let the remote settle: %w", err)
	}
	again, err = m.fetchEach(ctx, again, last, r)
	for _, h := range again {
		gone[h] = true
	}
	return err
}

// fetchEach is fetchAll without a second time. It returns the hashes that the remote does not have.
func (m *Mirror) fetchEach(ctx context.Context, missing []tree.Hash, last map[tree.Hash]bool, r *Result) ([]tree.Hash, error) {
	gone := map[tree.Hash]bool{}
	for some := range slices.Chunk(missing, m.limits.ask) {
		if err := m.fetchObjects(ctx, some, last, gone, r); err != nil {
			return nil, fmt.Errorf("fetch content: %w", err)
		}
	}
	return slices.Collect(maps.Keys(gone)), nil
}

// drop leaves out entries whose content the remote does not have any more: their paths have changed
// since, and come again. Those whose paths have not changed are lacking.
func (m *Mirror) drop(ctx context.Context, b *batch, gone map[tree.Hash]bool) error {
	if len(gone) == 0 {
		return nil
	}
	kept := b.entries[:0]
	for _, e := range b.entries {
		if isGone(&e, gone) {
			remote, _ := m.roots.toRemote(e.Path)
			now, err := m.remote().ReadEntry(ctx, remote)
			if err != nil {
				return fmt.Errorf("read %s at the remote: %w", remote, err)
			}
			if now == nil || tree.Fingerprint(now) != tree.Fingerprint(&e) {
				continue
			}
			b.lack(e.Path)
		}
		kept = append(kept, e)
	}
	b.entries = kept
	return nil
}

// isGone reports whether some content of an entry is gone.
func isGone(e *tree.Entry, gone map[tree.Hash]bool) bool {
	return slices.ContainsFunc(e.Parts, func(p tree.Part) bool { return gone[p.Hash] })
}

// missing are the chunks of entries that are not held here, each once.
func (m *Mirror) missing(ctx context.Context, entries []tree.Entry) ([]tree.Hash, error) {
	return m.lackingHere(ctx, hashesOf(entries, m.partsOf))
}

// lackingHere returns those of some hashes whose content is not held here.
func (m *Mirror) lackingHere(ctx context.Context, ask []tree.Hash) ([]tree.Hash, error) {
	if len(ask) == 0 {
		return nil, nil
	}
	held, err := m.forest.Held(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("look for content: %w", err)
	}
	var lacking []tree.Hash
	for i, h := range ask {
		if !held[i] {
			lacking = append(lacking, h)
		}
	}
	return lacking, nil
}

// lookNowhere takes all content to be lacking.
func lookNowhere(_ context.Context, ask []tree.Hash) ([]tree.Hash, error) { return ask, nil }

// fetchObjects fetches content and keeps it. What the remote does not have goes to gone.
func (m *Mirror) fetchObjects(ctx context.Context, hashes []tree.Hash, last, gone map[tree.Hash]bool, r *Result) error {
	for attempt := 1; ; attempt++ {
		s, err := m.cfg.Remote.FetchObjects(ctx, hashes)
		if err == nil {
			err = m.keep(ctx, s, last, r)
		}
		if err == nil || changes.Code(err) != tree.Code(tree.ErrUnknownHash) || attempt == maxTries {
			return err
		}
		// Some content is gone since it was listed. The rest is fetched in another attempt, in
		// which more may be gone.
		held, err := m.cfg.Remote.HasObjects(ctx, hashes)
		if err != nil {
			return err
		}
		has := make(map[tree.Hash]bool, len(held))
		for _, h := range held {
			has[h] = true
		}
		for _, h := range hashes {
			if !has[h] {
				gone[h] = true
			}
		}
		if hashes, err = m.lackingHere(ctx, held); err != nil || len(hashes) == 0 {
			return err
		}
	}
}

// keep keeps what comes, also what came before an error.
func (m *Mirror) keep(ctx context.Context, s changes.Stream[tree.Data], last map[tree.Hash]bool, r *Result) (err error) {
	defer func() { s.Close(err) }()
	to := m.forest.Stager()
	defer func() {
		if tree.NoRoom(err) {
			err = errors.Join(err, to.Abandon(ctx))
		}
		err = errors.Join(err, to.Flush(ctx), to.Close())
	}()
	for {
		d, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.Last = last[d.Hash]
		if err = d.Check(); err == nil {
			err = to.Put(ctx, d)
		}
		if err != nil {
			return fmt.Errorf("keep content: %w", err)
		}
		n := int64(len(d.Bytes))
		r.ObjectsIn++
		r.BytesIn += n
		m.meter.count(func(p *Progress) { p.ObjectsIn++; p.BytesIn += n })
	}
}
