package mirror

import (
	"context"
	"errors"
	"fmt"

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
	Conflicts                   []Conflict // up to MaxReported; nothing is decided about them
	MoreConflicts               int
	// Anew: the remote's store is not the one that was synchronised with, so that all is
	// compared.
	Anew bool
}

// Plan finds what Sync would move, tells of each path and changes nothing: no file, no
// cursor. What the disk has is settled into the local tree. An error of tell ends it.
func (m *Mirror) Plan(ctx context.Context, tell func(Move) error) (Plan, error) {
	var p Plan
	err := m.alone(ctx, func() error {
		m.fresh = false
		if err := m.cfg.Local.Settle(ctx); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		next, err := m.compared(ctx)
		if err != nil {
			return err
		}
		p.Anew = next.notes.Lost > m.s.notes.Lost
		m.s, m.loaded = next, false // it is not stored
		if err := m.planPull(ctx, &p, tell); err != nil {
			return fmt.Errorf("plan the pull: %w", err)
		}
		if err := m.planPush(ctx, &p, tell); err != nil {
			return fmt.Errorf("plan the push: %w", err)
		}
		return nil
	})
	return p, err
}

func (m *Mirror) planPull(ctx context.Context, p *Plan, tell func(Move) error) error {
	target, err := m.target(ctx)
	if err != nil || m.s.peer.Fetch.Compare(target) >= 0 {
		return err
	}
	local, err := m.localChanges(ctx)
	if err != nil {
		return err
	}
	return m.survey(ctx, target, local, true, func(d *decision) error {
		for _, c := range d.conflicts {
			if len(p.Conflicts) < MaxReported {
				p.Conflicts = append(p.Conflicts, c)
			} else {
				p.MoreConflicts++
			}
		}
		missing, err := m.missing(ctx, d.take)
		if err != nil {
			return err
		}
		sizes := sizesOf(d.take)
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

func sizesOf(entries []tree.Entry) map[tree.Hash]int64 {
	sizes := map[tree.Hash]int64{}
	for i := range entries {
		for _, part := range entries[i].Parts {
			sizes[part.Hash] = part.Size
		}
	}
	return sizes
}

func (m *Mirror) planPush(ctx context.Context, p *Plan, tell func(Move) error) error {
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push, Ignore: m.cfg.Ignore})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blocks := make(chan *block)
	failed := make(chan error, 1)
	notes := m.s.notes
	go func() { // ends with the list, or with ctx
		defer close(blocks)
		failed <- m.makeBlocks(ctx, list, notes, blocks)
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
