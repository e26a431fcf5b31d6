package mirror

import (
	"errors"
	iofs "io/fs"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/tree"
)

// The removal of a directory here is not sent, or takes not all of it, while the remote has something in it that
// this side does not have: what is held (heldBack.leavesNoRoom), or what rules hide. The cursor moves on all the same. Once
// the remote has no such thing there any more, the removal is sent again: nothing else would ever remove the directory.

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

// sendFreed sends the removals of directories again that are free once next is stored. What a batch
// that comes with it has removed is no change from here.
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
