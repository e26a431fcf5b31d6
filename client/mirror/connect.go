package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// connect loads what is stored and compares it with the remote's watermarks, which are those of
// a settled remote if a pull is to follow.
func (m *Mirror) connect(ctx context.Context, settle bool) error {
	m.fullHere.forget() // what is held is asked for again
	next, err := m.compared(ctx, settle)
	if err != nil {
		return err
	}
	if next.strangers() || next.notes.Blank {
		next.notes.First, next.notes.Blank, next.notes.BegunThere = m.cfg.First, m.cfg.Blank, m.heard.wm.CurrentRev
		if next.notes.Yielded == 0 {
			info, err := m.tree.Info(ctx)
			if err != nil {
				return err
			}
			next.notes.Begun = info.Rev
		}
	}
	// Also when nothing is new: from now on the tree keeps the old paths of what is moved.
	if err := m.tree.Share(ctx); err != nil {
		return err
	}
	if err := m.commit(ctx, next); err != nil {
		return err
	}
	m.fresh, m.rulesMoved = true, false
	return nil
}

// compared is the state with which to begin. It sets m.s to what is stored.
func (m *Mirror) compared(ctx context.Context, settle bool) (state, error) {
	s, err := m.loadState(ctx)
	if err != nil {
		return s, fmt.Errorf("load the cursors: %w", err)
	}
	m.s, m.loaded, m.found = s, true, map[string]string{}
	if err := m.loadRules(ctx); err != nil {
		return s, err
	}
	m.rememberUnkept()
	wm, err := m.watermarks(ctx, settle)
	if err != nil {
		return s, err
	}
	next, err := m.ignoring(s)
	if err != nil {
		return s, err
	}
	if lost := lostBy(&next, wm.CurrentRev, wm.Fetch); lost.any() {
		next = m.rebased(next, lost)
	}
	return m.releasing(next).tidied(), nil
}

// A loss is what a remote turns out not to know any more.
type loss struct{ ours, theirs bool }

func (l loss) any() bool { return l.ours || l.theirs }

// lostBy compares our cursors with the remote's. No other numbers of the two sides mean
// anything to each other.
func lostBy(s *state, current int64, applied tree.Cursor) loss {
	return loss{
		ours:   applied.Compare(s.peer.Push) < 0,
		theirs: current < max(s.peer.Fetch.Rev, s.notes.Toward),
	}
}

// rebased begins anew what was lost. A remote that forgot what it was sent may be an older
// copy of itself, which has other changes under revisions that we have seen; one that is
// behind has applied what came after, or has not: both are compared as a whole.
func (m *Mirror) rebased(s state, lost loss) state {
	m.log.Warn("the remote's store is another one, or older; all is compared anew",
		"pushed", s.peer.Push.Rev, "fetched", s.peer.Fetch.Rev, "lost_ours", lost.ours, "lost_theirs", lost.theirs)
	s.notes.Lost = max(s.notes.Lost, s.peer.Push.Rev)
	if p := s.notes.Pulled; len(p) > 0 {
		s.notes.Lost = max(s.notes.Lost, p[len(p)-1].Hi)
	}
	s.peer.Push, s.peer.Fetch = tree.Cursor{}, tree.Cursor{}
	s.notes.Pulled, s.notes.Pushed, s.sent = nil, nil, sent{}
	s.notes.ShownNames, s.notes.Left = false, nil
	s.notes.Shown, s.notes.AgreedPush, s.notes.AgreedFetch = nil, tree.Cursor{}, tree.Cursor{}
	s.notes.Gone = slices.AppendSeq(slices.Clone(s.notes.Gone), maps.Values(s.notes.Waits))
	slices.Sort(s.notes.Gone)
	s.notes.TheirLost, s.notes.Waits, s.notes.Pass, s.notes.Toward = 0, nil, nil, 0
	s.rules, s.ignored = s.rules.settled(), nil
	s.held, _ = s.held.marked(func(string, held) bool { return true })
	return s
}

// rebaseError says that a remote lost something while we were at it.
type rebaseError struct{ lost loss }

func (e *rebaseError) Error() string {
	return "the remote's store is another one, or older, than a moment ago"
}

// twice runs fn, and once more if it finds the remote's store changed.
func (m *Mirror) twice(ctx context.Context, fn func() error) error {
	err := fn()
	lost, ok := errors.AsType[*rebaseError](err)
	if !ok {
		return err
	}
	if err := m.commit(ctx, m.rebased(m.s, lost.lost)); err != nil {
		return err
	}
	if err = fn(); err != nil {
		if _, again := errors.AsType[*rebaseError](err); again {
			return &InvariantError{"its store has changed twice within one call"}
		}
	}
	return err
}

// after is the cursor behind an entry.
func after(e *tree.Entry) tree.Cursor { return changes.After(e) }
