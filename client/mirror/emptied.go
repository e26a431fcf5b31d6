package mirror

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A directory that the remote has removed stays here for what rules hide in it. Nothing that comes would ever remove it
// once that has gone, so that it is noted (notes.Left). It goes once nothing but directories is left in it that were there
// when the remote removed it.

// leaving returns Left after directories have come to stay here, and after others are on both sides again: those at some
// paths, or above them.
func (n *notes) leaving(left map[string]string, again func(yield func(string) bool)) map[string]string {
	if len(n.Left)+len(left) == 0 {
		return nil
	}
	next := map[string]string{}
	maps.Copy(next, n.Left)
	for path, identity := range left {
		if len(next) < maxLeft {
			next[path] = identity
		}
	}
	for path := range again {
		for p := path; p != "/" && len(next) > 0; p = above(p) {
			delete(next, p)
		}
	}
	return next
}

// identity is that of a directory here, "" if it is not known.
func (m *Mirror) identity(path string) string {
	if local, is := m.cfg.Local.(changes.Identifier); is {
		return local.Identity(path)
	}
	return ""
}

// livePaths yields the local paths of what entries make or change. remote says that the entries have the remote's paths.
func (m *Mirror) livePaths(entries []tree.Entry, remote bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range entries {
			path := entries[i].Path
			if remote {
				path, _ = m.roots.toLocal(path)
			}
			if entries[i].Kind != tree.KindDelete && path != "" && !yield(path) {
				return
			}
		}
	}
}

// emptied returns notes.Left without directories that are not here any more. empty lists those with nothing in them but
// directories and .gitignore files, none of them new here, each before the ones below it.
func (m *Mirror) emptied(ctx context.Context) (left map[string]string, empty []string, err error) {
	special := map[string]bool{} // directories in which something is that no tree has
	m.cfg.Local.Skipped(func(path string) bool {
		for p := above(path); p != "/"; p = above(p) {
			special[p] = true
		}
		return false
	})
	left = maps.Clone(m.s.notes.Left)
	for dir, is := range m.s.notes.Left {
		if now := m.identity(dir); now != is {
			delete(left, dir)
			for p := dir; now != "" && p != "/"; p = above(p) { // it was made again
				delete(left, p)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(left)) {
		hidden := false
		err := m.tree.Walk(ctx, dir, func(i *tree.FileInfo) error {
			goes := i.Kind == tree.KindDir || i.Kind == tree.KindFile && m.isGitFile(i.Path) // which stayed with what it hides
			if hidden = !goes || m.filter.hides(i.Path, i.Kind == tree.KindDir) || m.s.changed(i.Path, i.Rev); hidden {
				return errEnough
			}
			return nil
		})
		switch {
		case errors.Is(err, iofs.ErrNotExist), errors.Is(err, tree.ErrNotDirectory):
			delete(left, dir)
		case err != nil && !errors.Is(err, errEnough):
			return nil, nil, fmt.Errorf("look for what has stayed: %w", err)
		case !hidden && !special[dir]:
			empty = append(empty, dir)
		}
	}
	return left, empty, nil
}

// removeEmptied removes the directories of notes.Left that nothing is left in, as the remote has done before.
func (m *Mirror) removeEmptied(ctx context.Context, r *Result) error {
	if len(m.s.notes.Left) == 0 || m.cfg.Undo || m.cfg.Guard {
		return nil
	}
	left, empty, err := m.emptied(ctx)
	if err == nil && len(left) < len(m.s.notes.Left) {
		next := m.s
		next.notes.Left = left
		err = m.commit(ctx, next)
	}
	if err != nil || len(empty) == 0 {
		return err
	}
	local, err := m.localChanges(ctx)
	if err != nil {
		return err
	}
	b := &batch{block: block{cursor: m.s.peer.Fetch}, toward: m.s.notes.Toward}
	for _, dir := range empty {
		b.again = append(b.again, tree.Entry{Kind: tree.KindDelete, Path: dir})
	}
	return m.applyBatch(ctx, b, local, r)
}

// planEmptied is removeEmptied for a Plan.
func (m *Mirror) planEmptied(ctx context.Context, p *Plan, tell func(Move) error) error {
	if len(m.s.notes.Left) == 0 || m.cfg.Undo || m.cfg.Guard {
		return nil
	}
	_, empty, err := m.emptied(ctx)
	for i := 0; i < len(empty) && err == nil; i++ {
		p.ToLocal++
		err = tell(Move{Path: empty[i], Kind: tree.KindDelete})
	}
	return err
}
