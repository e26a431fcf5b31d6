package mirror

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/tree"
)

// clean reports whether nothing has changed here that the remote does not have, up to a
// revision of ours.
func (s *state) clean(rev int64) bool {
	low := s.peer.Push.Rev
	if s.peer.Push.Within {
		low--
	}
	return s.notes.Pulled.covers(low, rev)
}

// changed reports whether what is at a path, since a revision, is a change from here that
// the remote is not known to have.
func (s *state) changed(path string, rev int64) bool {
	at := tree.AtPath(rev, path)
	return at.Compare(s.peer.Push) > 0 && !s.notes.Pulled.has(rev) && !s.known().agreed(path, at, s.notes.AgreedPush)
}

// localChanges are the paths that have changed here, as they were listed at a revision:
// nil stands for too many.
type localChanges struct {
	rev   int64
	paths []string // sorted
}

// localChanges lists what has changed here.
func (m *Mirror) localChanges(ctx context.Context) (*localChanges, error) {
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push})
	if err != nil {
		return nil, err
	}
	out := &localChanges{rev: list.Current.Rev}
	if m.s.rules != nil { // they come to be changes as soon as something comes there
		out.paths = slices.Clone(m.s.rules.Blocked)
	}
	for path := range m.unseenHere() { // they may have changed
		out.paths = append(out.paths, path)
	}
	for {
		entries, err := list.Next(ctx, page)
		if errors.Is(err, io.EOF) {
			slices.Sort(out.paths)
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range entries {
			if e := &entries[i]; m.s.changed(e.Path, e.Rev) {
				out.paths = append(out.paths, e.Path)
			}
		}
		if len(out.paths) > maxLocal {
			return nil, nil
		}
	}
}

// touches reports whether a path, or one above or below it, may have changed here up to a
// revision.
func (l *localChanges) touches(s *state, path string, rev int64) bool {
	if l == nil || !s.notes.Pulled.covers(l.rev, rev) {
		return true
	}
	if len(l.paths) == 0 {
		return false
	}
	for p := path; ; p = above(p) {
		if _, ok := slices.BinarySearch(l.paths, p); ok && (p == path || p != "/") {
			return true
		}
		if p == "/" {
			break
		}
	}
	below := strings.TrimSuffix(path, "/") + "/"
	i, _ := slices.BinarySearchFunc(l.paths, below, cmp.Compare[string])
	return i < len(l.paths) && strings.HasPrefix(l.paths[i], below)
}
