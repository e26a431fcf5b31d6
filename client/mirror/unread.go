package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// unreadBeside names the paths whose content cannot be read here, beside those that are named already.
func (m *Mirror) unreadBeside(named map[string]bool) changes.Skipped {
	s := changes.Skipped{Why: changes.Unreadable}
	for _, path := range m.unread.list() {
		if covers(named, path) || !m.looksAt(path) {
			continue
		}
		if s.Count++; len(s.Paths) < changes.MaxSkipped {
			s.Paths = append(s.Paths, changes.SkippedPath{Path: path, Error: "its content cannot be read; the change is not sent"})
		}
	}
	return s
}

// rememberUnkept notes which versions could not be kept, and so are likely not to be read.
func (m *Mirror) rememberUnkept() {
	for _, path := range m.s.held.inConflict() {
		if h, _ := m.s.held.at(path); h.Unkept != "" {
			m.unread.add(h.Unkept, "")
		}
	}
}

// rereadLeft forgets which paths cannot be read here as far as they can be by now. It looks if it is time, or
// other paths are left out than before.
func (m *Mirror) rereadLeft(ctx context.Context) error {
	m.unseen = m.unseenHere()
	if m.unread.none() || !m.unread.isDue() && changes.SameSkipped(m.leftHere, m.here()) {
		return nil
	}
	paths := m.unread.some(maxRegained)
	var had []string
	for _, path := range paths {
		is, err := m.isRead(ctx, path)
		if err != nil {
			return err
		}
		if is {
			had = append(had, path)
		}
	}
	if len(had) == len(paths) {
		m.unread.forget()
		return nil
	}
	for _, path := range had {
		m.unread.drop(path)
	}
	m.unread.again()
	return nil
}

// isRead reports whether what there is at a path here can be read, as far as its beginning tells.
func (m *Mirror) isRead(ctx context.Context, path string) (bool, error) {
	if m.unseen.has(path) {
		return false, nil
	}
	e, err := m.tree.Entry(ctx, path)
	if errors.Is(err, iofs.ErrNotExist) {
		return true, nil
	}
	if err != nil || len(e.Parts) == 0 {
		return true, err
	}
	_, err = m.forest.Chunk(ctx, e.Parts[0].Hash, nil)
	if errors.Is(err, tree.ErrUnknownHash) {
		return false, nil
	}
	return err == nil, err
}

// unkeepable are versions from here that could not be kept when the batch was decided before.
type unkeepable struct {
	gone map[string]string // their prints, by path: their content was not to be had
	full map[string]error  // by path: there was no room for a copy
}

// copying takes the error of making copies, and reports whether the batch is to be decided once more because
// of it.
func (u *unkeepable) copying(err error, made map[string]copied) bool {
	if !tree.NoRoom(err) {
		return errors.Is(err, tree.ErrUnknownHash)
	}
	paths := changes.Paths(err)
	known := false
	for path, c := range made {
		if slices.Contains(paths, c.path) {
			u.full[path], known = err, true
		}
	}
	for path := range made {
		if !known {
			u.full[path] = err
		}
	}
	return true
}

// holdUnkept holds an entry in conflict if it is to take the place of versions that cannot be kept: since
// they cannot be read here, or there is no room. It reports whether that, or the batch, has been decided so.
func (d *decision) holdUnkept(x, cur *tree.Entry, losers []tree.Entry, kept Kept) (bool, error) {
	unkept := map[string]*waiting{}
	for i := range losers {
		if d.policy != Fail && d.unseen.has(losers[i].Path) {
			unkept[losers[i].Path] = &d.m.unread
		}
	}
	if len(unkept) == 0 && (!d.keep || kept != KeptRemote && kept != KeptBoth) {
		return false, nil
	}
	for i := range losers {
		l := &losers[i]
		if len(unkept) > 0 && !d.keep || d.unseen.has(l.Path) {
			continue
		}
		if c, ok := d.kept[l.Path]; ok && kept == KeptBoth && c.print == printOf(l) {
			continue
		}
		err := d.secure(l)
		switch {
		case err == nil && d.failed.full[l.Path] == nil:
		case err == nil, tree.NoRoom(err):
			unkept[l.Path] = &d.m.fullHere
			d.m.fullHere.explain(l.Path, cmp.Or(err, d.failed.full[l.Path]))
		case !errors.Is(err, tree.ErrUnknownHash):
			return false, fmt.Errorf("keep a version of %s: %w", l.Path, err)
		case d.failed.gone[l.Path] == printOf(l):
			unkept[l.Path] = &d.m.unread
		default: // it may have changed
			d.failed.gone[l.Path], d.goneNow = printOf(l), true
		}
	}
	if len(unkept) == 0 || d.goneNow {
		return d.goneNow, nil
	}
	if d.unkept == nil {
		d.unkept = map[string]*waiting{}
	}
	maps.Copy(d.unkept, unkept)
	first := slices.Min(slices.Collect(maps.Keys(unkept)))
	if top, h, known := d.conflictAt(x.Path); known {
		h.Unkept = first
		return true, d.heldStill(top, h, x)
	}
	for i := range losers {
		c := Conflict{Path: losers[i].Path, Local: versionOf(&losers[i]), Remote: versionOf(x), Held: true}
		if c.Path != x.Path {
			c.By = x.Path
		}
		d.tell(&c)
	}
	d.holdConflict(x, cur, losers)
	top, h, _ := d.conflictAt(x.Path)
	h.Unkept = first
	d.remember(top, &h)
	return true, nil
}

// secure has the content of a version kept apart from the file that has it.
func (d *decision) secure(e *tree.Entry) error {
	for _, p := range e.Parts {
		if err := d.edit.Secure(p.Hash); err != nil {
			return err
		}
	}
	return nil
}
