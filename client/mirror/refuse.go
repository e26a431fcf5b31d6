package mirror

import (
	"context"
	"errors"
	"maps"

	"github.com/wsd-dev/wsd/fs/tree"
)

// errUndo ends an update that was to change nothing.
var errUndo = errors.New("nothing is to change")

// refuse finds conflicts in all that is to be pulled, before anything is.
func (m *Mirror) refuse(ctx context.Context, target tree.Cursor) error {
	local, err := m.localChanges(ctx)
	if err != nil || (local != nil && len(local.paths) == 0) {
		return err
	}
	var found ConflictError
	err = m.survey(ctx, target, local, false, func(_ *batch, d *decision) error {
		found.add(d.conflicts)
		return nil
	})
	if err == nil && len(found.Conflicts) > 0 {
		err = &found
	}
	return err
}

// survey decides about all that is to be pulled, and changes nothing. all says that each
// change is wanted, not only the conflicts.
func (m *Mirror) survey(ctx context.Context, target tree.Cursor, local *localChanges, all bool, tell func(*batch, *decision) error) error {
	f, err := m.fetch(ctx, target)
	if err != nil {
		return err
	}
	read := make(chan *batch)
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, known := m.s.peer.Fetch, m.known()
	go func() { // ends with the stream, or with ctx
		defer close(read)
		err := m.readBatches(ctx, f, from, &known, lookNowhere, read)
		f.Entries.Close(err)
		failed <- err
	}()
	for b := range read {
		if err := m.surveyBatch(ctx, b, local, all, tell); err != nil {
			cancel()
			return errors.Join(err, ended(<-failed))
		}
	}
	return <-failed
}

// ended is the error of a stage that was told to end, nil for that it was.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (m *Mirror) surveyBatch(ctx context.Context, b *batch, local *localChanges, all bool, tell func(*batch, *decision) error) error {
	var d *decision
	if m.planning {
		if err := m.lackStill(ctx, b); err != nil {
			return err
		}
	}
	_, err := m.tree.Update(ctx, func(e *tree.Edit) error {
		kept := map[string]copied{}
		decide := func() error {
			d = &decision{m: m, edit: e, kept: kept, local: local, policy: m.policy, all: all, hides: maps.Clone(b.hides)}
			return d.decide(b)
		}
		err := decide()
		if errors.Is(err, errCopies) {
			// They would be made, and all decided again.
			var aside []tree.Entry
			if aside, err = copies(e, d.copies, kept); err != nil {
				return err
			}
			err = decide()
			if err == nil {
				err = d.withParents(aside)
			}
		}
		if _, ok := errors.AsType[*ConflictError](err); err != nil && !ok {
			return err
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return err
	}
	return tell(b, d)
}

// withParents notes copies as what is sent, and the directories that are made for them.
func (d *decision) withParents(aside []tree.Entry) error {
	made := map[string]bool{}
	for i := range aside {
		c := &aside[i]
		d.more = append(d.more, *c)
		for p := above(c.Path); p != "/" && !made[p]; p = above(p) {
			at, err := d.at(p)
			if err != nil {
				return err
			}
			if live(at) {
				break
			}
			made[p] = true
			d.more = append(d.more, tree.Entry{Kind: tree.KindDir, Path: p, Rev: c.Rev})
		}
	}
	return nil
}
