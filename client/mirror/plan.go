package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Move is a change that a call of Sync would bring to the other side.
type Move struct {
	ToRemote bool
	Path     string // of the local tree
	Kind     tree.Kind
	Size     int64 // of a file
}

// A Plan is how much would move.
type Plan struct {
	ToRemote, ToLocal           int // entries
	ObjectsToSend, ObjectsToGet int
	BytesToSend, BytesToGet     int64
	Conflicts                   []Conflict // up to MaxReported, with what would become of them
	MoreConflicts               int
	Held                        int        // paths that would be held in conflict
	Undone                      int        // versions of the remote that would be undone there, and kept here
	Withheld                    []Withheld // up to MaxReported
	MoreWithheld                int
	// Anew: the remote's store is not the one that was synchronised with, so that all is
	// compared.
	Anew bool
	// TooMany: it would remove more than Config.MayDelete lets, and change nothing.
	TooMany *DeletesError
	// Here and There are as those of a Result.
	Here, There []changes.Skipped
	// IgnoredHere and IgnoredThere are how many paths are ignored, without those that are below
	// another one.
	IgnoredHere, IgnoredThere int
}

// Plan finds what Sync would move, tells of each path and changes nothing: no file, no
// cursor. What the disk has is settled into the local tree. An error of tell ends it; with
// Fail and conflicts it is a ConflictError, and nothing would move.
func (m *Mirror) Plan(ctx context.Context, tell func(Move) error) (Plan, error) {
	var p Plan
	err := m.alone(ctx, func() error {
		m.fresh, m.policy, m.planning = false, m.cfg.OnConflict, true
		defer func() { m.planning = false }()
		if err := m.settle(ctx); err != nil {
			return err
		}
		next, err := m.compared(ctx, true)
		if err != nil {
			return err
		}
		p.Anew = next.notes.Lost > m.s.notes.Lost
		if err := m.rereadLeft(ctx); err != nil {
			return err
		}
		if next, err = m.allowing(ctx, m.unholding(next)); err != nil {
			return err
		}
		m.s, m.loaded = next, false // it is not stored
		if err := m.planRules(ctx); err != nil {
			return err
		}
		if m.policy == Fail {
			if err := m.refuseHeld(ctx); err != nil {
				return err
			}
		}
		if err := m.planDeletes(ctx, &p); err != nil {
			return err
		}
		var after decided
		if err := m.planBack(ctx, &p, &after); err != nil {
			return fmt.Errorf("plan what was overtaken: %w", err)
		}
		if err := m.planPull(ctx, &p, &after, tell); err != nil {
			return fmt.Errorf("plan the pull: %w", err)
		}
		if err := m.planEmptied(ctx, &p, tell); err != nil {
			return fmt.Errorf("plan the pull: %w", err)
		}
		p.Held = after.held.conflicts()
		if err := m.planPush(ctx, &p, &after, tell); err != nil {
			return fmt.Errorf("plan the push: %w", err)
		}
		m.s.held = after.held
		p.Here, p.There = m.here(), m.left()
		return m.planIgnored(ctx, &p)
	})
	return p, err
}

// conflicts adds conflicts, up to the bound.
func (p *Plan) conflicts(list []Conflict) {
	n := min(len(list), MaxReported-len(p.Conflicts))
	p.Conflicts = append(p.Conflicts, list[:n]...)
	p.MoreConflicts += len(list) - n
}

// planDeletes notes that too much would be removed.
func (m *Mirror) planDeletes(ctx context.Context, p *Plan) error {
	target, err := m.target(ctx)
	switch {
	case err != nil:
	case m.s.peer.Fetch.Compare(target) < 0:
		err = m.mayPull(ctx, target)
	default:
		err = m.mayPush(ctx)
	}
	if many, ok := errors.AsType[*DeletesError](err); ok {
		p.TooMany, err = many, nil
	}
	return err
}

// decided is what the decisions about a pull make of the push behind it.
type decided struct {
	lost map[string]bool // paths whose versions are not sent
	made map[string]bool // directories that are there again, if they were removed here
	more []tree.Entry    // what is sent beside what has changed
	held *heldSet        // what is withheld then
	// ignored is what the remote has then of what rules hide.
	ignored *ignoredSet
}

func (m *Mirror) planPull(ctx context.Context, p *Plan, after *decided, tell func(Move) error) error {
	after.held, after.ignored = m.s.held, m.s.ignored
	target, err := m.target(ctx)
	if err != nil || m.s.peer.Fetch.Compare(target) >= 0 {
		after.held = after.held.fresh()
		return err
	}
	if m.policy == Fail {
		if err := m.refuse(ctx, target); err != nil {
			return err
		}
	}
	local, err := m.localChanges(ctx)
	if err != nil {
		return err
	}
	after.lost, after.made = map[string]bool{}, map[string]bool{}
	return m.survey(ctx, target, local, true, func(b *batch, d *decision) error {
		for _, path := range d.lost {
			after.lost[path] = true
		}
		for i := range d.take {
			if e := &d.take[i]; e.Kind != tree.KindDelete {
				for dir := above(e.Path); dir != "/" && !after.made[dir]; dir = above(dir) {
					after.made[dir] = true
				}
			}
		}
		for i := range d.more {
			if e := &d.more[i]; !after.lost[e.Path] {
				after.more = append(after.more, *e)
			}
		}
		after.held = after.held.with(d.holds)
		var err error
		if after.ignored, err = after.ignored.with(d.hides); err != nil {
			return err
		}
		if b.last {
			after.held = after.held.fresh()
		}
		for _, w := range d.withheld {
			if len(p.Withheld) < MaxReported {
				p.Withheld = append(p.Withheld, w)
			} else {
				p.MoreWithheld++
			}
		}
		p.conflicts(d.conflicts)
		p.Undone += len(d.undone)
		missing, err := m.missing(ctx, b.fetched()) // what loses is fetched as well
		if err != nil {
			return err
		}
		sizes := sizesOf(b.entries)
		p.ObjectsToGet += len(missing)
		for _, h := range missing {
			p.BytesToGet += sizes[h]
		}
		for _, c := range d.changes {
			kind := c.Kind
			if c.What == Deleted {
				kind = tree.KindDelete
			}
			p.ToLocal++
			if err := tell(Move{Path: c.Path, Kind: kind, Size: c.Size}); err != nil {
				return err
			}
		}
		return nil
	})
}

// fetched are the entries of a batch whose content is to be had.
func (b *batch) fetched() []tree.Entry {
	if len(b.lacking) == 0 {
		return b.entries
	}
	return slices.DeleteFunc(slices.Clone(b.entries), func(e tree.Entry) bool { return b.lacking[e.Path] })
}

// lackStill notes of which entries of a batch the content was not to be had the last time, and is not to be had
// now: the remote cannot read it, or there is no room for it here.
func (m *Mirror) lackStill(ctx context.Context, b *batch) error {
	var waiting []tree.Entry
	for i := range b.entries {
		if h, _ := m.s.held.at(b.entries[i].Path); h.Lacking {
			waiting = append(waiting, b.entries[i])
		}
	}
	missing, err := m.missing(ctx, waiting)
	if err != nil || len(missing) == 0 {
		return err
	}
	gone := map[tree.Hash]bool{}
	for some := range slices.Chunk(missing, m.limits.ask) {
		lacking, err := m.lackingThere(ctx, some)
		if err != nil {
			return err
		}
		for _, h := range lacking {
			gone[h] = true
		}
	}
	var room int64
	known := false
	if m.cfg.Room != nil {
		room, known = m.cfg.Room()
	}
	slices.SortStableFunc(waiting, func(a, b tree.Entry) int { return cmp.Compare(a.Size, b.Size) })
	sizes := sizesOf(waiting)
	left := map[tree.Hash]bool{}
	for _, h := range missing {
		left[h] = !gone[h]
	}
	for i := range waiting {
		e := &waiting[i]
		if isGone(e, gone) {
			b.lack(e.Path)
			continue
		}
		for _, p := range e.Parts {
			if left[p.Hash] {
				left[p.Hash] = false
				room -= sizes[p.Hash]
			}
		}
		if known && room < 0 {
			m.leaveHere(b, e, syscall.ENOSPC)
		}
	}
	return nil
}

func sizesOf(entries []tree.Entry) map[tree.Hash]int64 {
	sizes := map[tree.Hash]int64{}
	for i := range entries {
		for _, part := range entries[i].Parts {
			sizes[part.Hash] = part.Size
		}
	}
	return sizes
}

// next reads what would be sent, from a list of what has changed.
func (a *decided) next(list *tree.Changes) func(context.Context, int) ([]tree.Entry, error) {
	return func(ctx context.Context, limit int) ([]tree.Entry, error) {
		entries, err := list.Next(ctx, limit)
		if errors.Is(err, io.EOF) && len(a.more) > 0 {
			entries = a.more[:min(limit, len(a.more))]
			a.more = a.more[len(entries):]
			return entries, nil
		}
		return slices.DeleteFunc(entries, func(e tree.Entry) bool {
			return a.lost[e.Path] || e.Kind == tree.KindDelete && a.made[e.Path]
		}), err
	}
}

func (m *Mirror) planPush(ctx context.Context, p *Plan, after *decided, tell func(Move) error) error {
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push, Ignore: m.filter.names})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blocks := make(chan *block)
	failed := make(chan error, 1)
	known := known{m.s.notes, m.s.rules, after.held, after.ignored}
	go func() { // ends with the list, or with ctx
		defer close(blocks)
		failed <- m.makeBlocks(ctx, &changeList{next: after.next(list), from: m.s.peer.Push, upTo: list.Current, gone: map[string]bool{}}, known, blocks)
	}()
	for b := range blocks {
		p.ToRemote += len(b.entries)
		p.ObjectsToSend += len(b.objects)
		p.BytesToSend += b.bytes
		for i := range b.entries {
			e := &b.entries[i]
			path, _ := m.roots.toLocal(e.Path)
			if err := tell(Move{ToRemote: true, Path: path, Kind: e.Kind, Size: e.Size}); err != nil {
				cancel()
				return errors.Join(err, ended(<-failed))
			}
		}
	}
	return <-failed
}
