package disk

import (
	"context"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// moveDirs brings renamed directories into the tree as what they are, each by one row,
// and returns the changes that are left then. A directory counts as renamed if one that
// is not where it was has its number and its time of birth, and nothing is at its new
// place in the tree. (One that took another one's place is told of path by path, though
// its files are not read.)
func (w *Workspace) moveDirs(ctx context.Context, s *scan) error {
	left := map[identity]*node{}
	note := func(n *node) {
		if n.stat.kind == tree.KindDir && n.stat.btime != 0 {
			left[identity{n.stat.dev, n.stat.ino}] = n
		}
	}
	fresh := map[identity]struct{}{}
	for _, c := range s.changes {
		if c.old.kind == 0 && c.stat.kind == tree.KindDir && c.stat.btime != 0 {
			fresh[identity{c.stat.dev, c.stat.ino}] = struct{}{}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	for _, c := range s.changes {
		if c.stat.kind != 0 {
			continue
		}
		if n := w.index.find(c.path); n != nil {
			note(n)
			n.each(note)
		}
	}
	some := false
	for id := range left {
		if _, ok := fresh[id]; ok {
			some = true
		} else {
			delete(left, id)
		}
	}
	if !some {
		return nil
	}
	m := &mover{w: w, left: left}
	for batch := range slices.Chunk(s.changes, w.limits.batch) {
		if err := m.move(ctx, batch); err != nil {
			return err
		}
	}
	s.changes = m.remaining(s)
	return nil
}

// A mover renames directories.
type mover struct {
	w     *Workspace
	left  map[identity]*node
	moved []string // the new paths
}

// move takes the directories among some changes: those that were renamed, and those that
// are new, since others may have been renamed into them.
func (m *mover) move(ctx context.Context, batch []*change) error {
	w := m.w
	var made []*change
	_, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		for _, c := range batch {
			if c.stat.kind != tree.KindDir || w.index.find(c.path) != nil || !w.hasDir(c.path, map[string]struct{}{}) {
				continue
			}
			if n := m.left[identity{c.stat.dev, c.stat.ino}]; n != nil && n.stat.btime == c.stat.btime {
				ok, err := m.rename(e, rows, n, c)
				if err != nil {
					return err
				}
				if ok {
					continue
				}
			}
			ok, err := w.take(e, c)
			if err != nil && tree.Code(err) == "" {
				return err
			}
			if !ok || err != nil {
				continue // record will come to it
			}
			if err := rows.PutDiskStats(w.root.ID, []Row{{c.path, c.stat.encode()}}); err != nil {
				return err
			}
			if err := w.index.put(c.path, c.stat); err != nil {
				return err
			}
			made = append(made, c)
		}
		return nil
	})
	if err != nil {
		w.stale = true // the index is ahead of the rows
		return err
	}
	for _, c := range made {
		c.old = copied(&c.stat)
	}
	return nil
}

// rename gives a node the path of a change.
func (m *mover) rename(e *tree.Edit, rows Rows, n *node, c *change) (bool, error) {
	w := m.w
	from := n.path()
	if slashpath.Within(c.path, from) {
		return false, nil
	}
	info, err := e.Lstat(w.treePath(c.path))
	if err != nil && tree.Code(err) == "" {
		return false, err
	}
	if err == nil || info.Path != "" {
		return false, nil // the tree has something there that the index does not
	}
	if err := e.Rename(w.treePath(from), w.treePath(c.path)); err != nil {
		if tree.Code(err) == "" {
			return false, err
		}
		return false, nil
	}
	if err := rows.MoveDiskStats(w.root.ID, from, c.path); err != nil {
		return false, err
	}
	w.unwatch(from) // what is watched has its new path already
	w.index.move(n, c.path)
	delete(m.left, identity{c.stat.dev, c.stat.ino})
	m.moved = append(m.moved, c.path)
	w.stats.settled.Add(1)
	return true, nil
}

// remaining is what is left to do: below a directory that was renamed all was taken for
// new, which most of it is not, and nothing for gone.
func (m *mover) remaining(s *scan) []*change {
	seen := map[*node]struct{}{}
	for path, l := range s.left {
		if l.why != changes.Unreadable && m.below(path) && m.w.index.find(path) != nil {
			s.later(path) // the tree keeps what it has there
		}
	}
	for _, path := range s.again {
		if n := m.w.index.find(path); n != nil {
			seen[n] = struct{}{}
			n.each(func(k *node) { seen[k] = struct{}{} })
		}
	}
	var list []*change
	for _, c := range s.changes {
		n := m.w.index.find(c.path)
		switch {
		case c.stat.kind == 0 && n == nil:
			continue // it was renamed
		case c.stat.kind == 0 || n == nil || !m.below(c.path):
			if c.stat.kind != tree.KindDir || *c.old != c.stat {
				list = append(list, c)
			}
			continue
		}
		seen[n] = struct{}{}
		c.old = copied(&n.stat)
		if c.stat.kind == tree.KindDir {
			if n.stat.kind != tree.KindDir || n.stat.mode != c.stat.mode || n.stat.ino != c.stat.ino {
				list = append(list, c)
			}
			continue
		}
		if !c.stat.same(&n.stat) || n.stat.flags&again != 0 || c.read {
			list = append(list, c)
		}
	}
	for _, path := range m.moved {
		n := m.w.index.find(path)
		if n == nil {
			continue // it went on with another one
		}
		seen[n] = struct{}{}
		m.missing(n, seen, &list)
	}
	return list
}

// below reports whether a path is, or is below, a directory that was renamed.
func (m *mover) below(path string) bool {
	return slices.ContainsFunc(m.moved, func(dir string) bool { return slashpath.Within(path, dir) })
}

func (m *mover) missing(n *node, seen map[*node]struct{}, list *[]*change) {
	for k := range n.kids.all() {
		if _, ok := seen[k]; !ok {
			*list = append(*list, &change{path: k.path(), old: copied(&k.stat)})
			continue
		}
		m.missing(k, seen, list)
	}
}
