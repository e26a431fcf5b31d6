package mirror

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/tree"
)

// The remote may have something in a directory that this side does not have: what is held (heldBack.leavesNoRoom), or
// what rules hide. As long as it has, a removal of the directory here is not sent, or removes only a part of it. The
// cursor moves on all the same. Once the remote has no such thing there any more, the removal is sent again: nothing else
// would ever remove the directory.

// freed returns the directories in which only the remote had something, and has nothing of the kind any more.
func freed(held, nextHeld *heldSet, ignored, nextIgnored *ignoredSet) []string {
	dirs := map[string]bool{}
	if held != nextHeld {
		dirs = held.above(nil)
	}
	if ignored != nextIgnored && ignored != nil {
		maps.Copy(dirs, ignored.above())
	}
	if len(dirs) == 0 {
		return nil
	}
	left := nextHeld.above(nil)
	maps.Copy(left, nextIgnored.above())
	maps.DeleteFunc(dirs, func(dir string, _ bool) bool { return left[dir] })
	return slices.Sorted(maps.Keys(dirs))
}

// sendFreed sends the removals of directories again that a batch frees.
func (d *decision) sendFreed() error {
	s := &d.m.s
	ignored, err := s.ignored.with(d.hides)
	if err != nil {
		return err
	}
	for _, dir := range freed(s.held, s.held.with(d.holds), s.ignored, ignored) {
		e, err := d.at(dir)
		if err == nil && e != nil && e.Kind == tree.KindDelete {
			err = d.sendAgain(dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendFreed sends the removals of directories again that are free once next is stored. The removals of the
// batch that comes with it are no changes from here.
func (m *Mirror) sendFreed(e *tree.Edit, next *state) error {
	for _, dir := range freed(m.s.held, next.held, nil, next.ignored) {
		at, err := e.Entry(dir)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			err = nil
		case err == nil && at.Kind == tree.KindDelete && !next.notes.Pulled.has(at.Rev) && !next.changed(dir, at.Rev):
			err = touch(e, dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// codeGone returns the paths of directories here that the remote has removed or replaced, which was withheld because of
// names in them that make programs run code, and in which there is no such name any more. It remembers the name that it
// finds in each, and looks for another one only once that is gone.
func (m *Mirror) codeGone(ctx context.Context) (map[string]bool, error) {
	gone, seen := map[string]bool{}, map[string]string{}
	if m.s.held == nil {
		return gone, nil
	}
	for path, h := range m.s.held.Paths {
		if h.Stale || h.Conflict || h.Lacking || h.Bits != 0 || h.Kind == tree.KindDir || m.isCode(path, h.Kind) {
			continue
		}
		cur, err := m.tree.Entry(ctx, path)
		if errors.Is(err, iofs.ErrNotExist) || err == nil && (cur.Kind != tree.KindDir || m.isCode(path, cur.Kind)) {
			continue
		}
		if err == nil {
			seen[path], err = m.codeIn(ctx, path, m.codeSeen[path])
		}
		if err != nil {
			return nil, fmt.Errorf("look for what is withheld: %w", err)
		}
		if seen[path] == "" {
			gone[path] = true
		}
	}
	m.codeSeen = seen
	return gone, nil
}

// codeIn returns the path of something in a directory whose name makes programs run code, "" for none. It looks at last first.
func (m *Mirror) codeIn(ctx context.Context, dir, last string) (found string, err error) {
	if last != "" {
		switch e, err := m.tree.Entry(ctx, last); {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			return "", err
		case live(&e) && m.isCode(last, e.Kind):
			return last, nil
		}
	}
	err = m.tree.Walk(ctx, dir, func(i *tree.FileInfo) error {
		if i.Path != dir && m.isCode(i.Path, i.Kind) {
			found = i.Path
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// allowing has what codeGone finds fetched again.
func (m *Mirror) allowing(ctx context.Context, s state) (state, error) {
	gone, err := m.codeGone(ctx)
	if err != nil || len(gone) == 0 {
		return s, err
	}
	return s.refetching(func(path string, _ held) bool { return gone[path] }), nil
}
