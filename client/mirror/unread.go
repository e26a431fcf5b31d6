package mirror

import (
	"context"
	"errors"
	iofs "io/fs"

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

// rereadLeft forgets which paths cannot be read here as far as they can be by now. It looks if it is time, or
// other paths are left out than before.
func (m *Mirror) rereadLeft(ctx context.Context) error {
	if m.unread.none() || !m.unread.due() && changes.SameSkipped(m.leftHere, m.here()) {
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
	m.unread.pause()
	return nil
}

// isRead reports whether what there is at a path here can be read, as far as its beginning tells.
func (m *Mirror) isRead(ctx context.Context, path string) (bool, error) {
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
