package disk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// record brings what a scan has found into the tree, some at a time: what there is now in
// the order of the paths, then what is gone.
func (w *Workspace) record(ctx context.Context, root int, s *scan) error {
	agree(s)
	var some *gradual
	if s.grows() {
		some = w.gradual
	}
	sortChanges(s)
	if err := w.leaveRemnants(ctx, s); err != nil {
		return err
	}
	if err := w.moveDirs(ctx, s); err != nil {
		return err
	}
	sortChanges(s)
	if err := w.matchMoved(ctx, s.changes); err != nil {
		return err
	}
	rest := s.changes
	if some != nil {
		topFirst(rest)
	}
	for len(rest) > 0 {
		batch := rest[:min(len(rest), w.limits.batch)]
		if some != nil {
			batch = some.part(rest)
		}
		rest = rest[len(batch):]
		if err := w.readAll(ctx, root, batch); err != nil {
			return err
		}
		for _, c := range batch {
			if c.unread != nil {
				there := c.stat
				if c.sameContent() && (c.ours || c.old.ctime == c.stat.ctime) {
					there = stat{}
				}
				s.skipUnread(c.unread, c.path, there)
			}
		}
		if err := w.commit(ctx, s, batch); err != nil {
			return err
		}
		clear(batch) // there may be many, and the index grows
		if some != nil && len(rest) > 0 && (s.lacks() || !some.fn()) {
			some = nil
		}
	}
	return nil
}

// grows reports whether all that a scan has found is there now, and no directory or link has
// become something else: to have some of it in the tree is to have less, and nothing false.
func (s *scan) grows() bool {
	return !s.lacks() && !slices.ContainsFunc(s.changes, func(c *change) bool {
		return c.stat.kind == 0 || c.old.kind != 0 && c.old.kind != c.stat.kind
	})
}

// lacks reports whether something could not be read.
func (s *scan) lacks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.left {
		if l.why == changes.Unreadable {
			return true
		}
	}
	return false
}

// topFirst brings the files and links in the directory itself before all else but that.
func topFirst(list []*change) {
	below := func(c *change) int {
		if c.path == "" || c.stat.kind != tree.KindDir && !strings.Contains(c.path, "/") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *change) int { return cmp.Compare(below(a), below(b)) })
}

// gradual is what SettleBy was given.
type gradual struct {
	paths int
	bytes int64
	fn    func() bool
}

// part is the beginning of a list, as much as is taken into the tree at once.
func (g *gradual) part(list []*change) []*change {
	list = list[:min(len(list), g.paths)]
	var size int64
	for i, c := range list {
		if c.stat.kind == tree.KindFile {
			size += c.stat.size
		}
		if i > 0 && size > g.bytes {
			return list[:i]
		}
	}
	return list
}

// leaveRemnants leaves out directories that the tree has removed and that are still there for
// what no tree can have: what was removed was such a directory. Once there is something else in
// them, they are news.
func (w *Workspace) leaveRemnants(ctx context.Context, s *scan) error {
	if len(s.oddDirs) == 0 {
		return nil
	}
	used := map[string]bool{} // directories with something else
	remnant := map[string]bool{}
	for _, c := range slices.Backward(s.changes) { // what is in a directory before itself
		if c.stat.kind == 0 || c.path == "" {
			continue
		}
		up := slashpath.Dir(c.path)
		if _, odd := s.oddDirs[c.path]; c.old.kind == 0 && c.stat.kind == tree.KindDir && !used[c.path] && (odd || remnant[c.path]) {
			e, err := w.cfg.Tree.Entry(ctx, w.treePath(c.path))
			if err != nil && tree.Code(err) == "" {
				return err
			}
			was := tree.Fingerprint(&tree.Entry{Kind: tree.KindDir, Mode: uint32(c.stat.mode)})
			if err == nil && e.Kind == tree.KindDelete && (e.Prior == "" || e.Prior == was) {
				remnant[up] = true // if it is one itself
				c.vanished = true
				s.later(c.path)
				continue
			}
		}
		used[up] = true
	}
	s.changes = slices.DeleteFunc(s.changes, func(c *change) bool { return c.vanished })
	return nil
}

// agree leaves out that a path is gone when something was found there, or below, by a look
// at another moment. The next settle tells what is true.
func agree(s *scan) {
	gone := map[string]bool{}
	for _, c := range s.changes {
		if c.stat.kind == 0 {
			gone[c.path] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	for _, c := range s.changes {
		if c.stat.kind == 0 {
			continue
		}
		for path := c.path; path != ""; path = slashpath.Dir(path) {
			if gone[path] {
				gone[path] = false
				s.later(path)
			}
		}
	}
	s.changes = slices.DeleteFunc(s.changes, func(c *change) bool { return c.stat.kind == 0 && !gone[c.path] })
}

// sortChanges puts what there is now before what is gone, both in the order of the paths.
func sortChanges(s *scan) {
	slices.SortFunc(s.changes, func(a, b *change) int {
		switch {
		case a.stat.kind != 0 && b.stat.kind == 0:
			return -1
		case a.stat.kind == 0 && b.stat.kind != 0:
			return 1
		default:
			return slashpath.Compare(a.path, b.path)
		}
	})
	s.changes = slices.CompactFunc(s.changes, func(a, b *change) bool {
		return a.path == b.path && (a.stat.kind == 0) == (b.stat.kind == 0)
	})
}

// An identity is a file's, whatever its name.
type identity struct{ dev, ino uint64 }

// matchMoved finds files among the changes that had another name before. Their content is
// what the tree has under the old one.
func (w *Workspace) matchMoved(ctx context.Context, changes []*change) error {
	left := map[identity]*node{} // nodes that are no longer where they were
	note := func(n *node) {
		if n.stat.kind == tree.KindFile && n.stat.flags&unsure == 0 && n.stat.btime != 0 {
			left[identity{n.stat.dev, n.stat.ino}] = n
		}
	}
	fresh := false
	for _, c := range changes {
		if c.stat.kind == tree.KindFile && c.stat.ino != c.old.ino {
			fresh = true
		}
	}
	if !fresh {
		return nil
	}
	for _, c := range changes {
		if c.old.kind == 0 || c.stat.kind == tree.KindDir && c.old.kind == tree.KindDir || c.stat.ino == c.old.ino && c.stat.kind == c.old.kind {
			continue
		}
		if n := w.index.find(c.path); n != nil {
			note(n)
			n.each(note)
		}
	}
	if len(left) == 0 {
		return nil
	}
	for _, c := range changes {
		if c.stat.kind != tree.KindFile || c.read {
			continue
		}
		n := left[identity{c.stat.dev, c.stat.ino}]
		if n == nil || !n.stat.moved(&c.stat) {
			continue
		}
		e, err := w.cfg.Tree.Entry(ctx, w.treePath(n.path()))
		if err != nil && tree.Code(err) == "" {
			return err
		}
		if err == nil && e.Kind == tree.KindFile && e.Size == c.stat.size {
			c.parts, c.known = e.Parts, true
		}
	}
	return nil
}

// readAll reads the files among some changes, several at once.
func (w *Workspace) readAll(ctx context.Context, root int, batch []*change) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, min(w.cfg.Parallel, len(batch)))
	for i := range errs {
		wg.Go(func() { // waited for below
			walk := newWalker(root)
			defer walk.forget()
			for errs[i] == nil {
				at := int(next.Add(1)) - 1
				if at >= len(batch) {
					return
				}
				if c := batch[at]; c.stat.kind == tree.KindFile && !c.known {
					errs[i] = w.read(ctx, walk, c)
				}
				if errs[i] == nil {
					errs[i] = ctx.Err()
				}
			}
			next.Store(int64(len(batch))) // the others need not go on
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// read reads the file of a change.
func (w *Workspace) read(ctx context.Context, walk *walker, c *change) error {
	dir, name := slashpath.Split(c.path)
	fd, err := walk.open(dir)
	var got content
	if err == nil {
		var keep *keeper
		if c.keep {
			keep = &keeper{ctx: ctx, forest: w.cfg.Forest}
		} else if w.gradual != nil {
			keep = &keeper{forest: w.cfg.Forest, hands: true}
		}
		got, err = w.readSeen(ctx, fd, name, &c.stat, keep)
	}
	switch {
	case err == nil:
		dev := c.stat.dev
		c.parts, c.stat = got.parts, got.stat
		c.stat.size, c.stat.dev = got.size, dev
		w.stats.files.Add(1)
	case gone(err) || errors.Is(err, errSpecial):
		c.vanished = true
	case denied(err):
		c.unread, c.ours = err, isOurs(fd, name)
	default:
		return pathError("read", c.path, err)
	}
	return nil
}

// commit stores some changes in the tree, with the rows of the index.
func (w *Workspace) commit(ctx context.Context, s *scan, batch []*change) error {
	var put []*change
	var rows []Row
	var removed, later []string
	_, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		put, rows, removed, later = nil, nil, nil, nil
		r, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		dirs := map[string]struct{}{}
		var cut []string // what was a directory, and is none any more
		for _, c := range batch {
			if c.stat.kind != 0 && (!w.hasDir(c.path, dirs) || slices.ContainsFunc(cut, func(dir string) bool { return c.path != dir && slashpath.Within(c.path, dir) })) {
				later = append(later, c.path) // what it is in could not be taken
				continue
			}
			taken, err := w.take(e, c)
			if code := tree.Code(err); err != nil && code == "" {
				return err
			}
			switch {
			case err != nil:
				s.skip(err, c.path)
			case c.vanished || !taken:
				later = append(later, c.path)
			case c.stat.kind == 0:
				removed = append(removed, c.path)
				err = r.DeleteDiskStats(w.root.ID, c.path)
			default:
				if c.old.kind == tree.KindDir && c.stat.kind != tree.KindDir {
					err = r.DeleteDiskStats(w.root.ID, c.path)
					cut = append(cut, c.path)
				}
				put = append(put, c)
				if c.stat.kind == tree.KindDir {
					dirs[c.path] = struct{}{}
				}
				rows = append(rows, Row{c.path, c.stat.encode()})
			}
			if err != nil && tree.Code(err) == "" {
				return err
			}
		}
		return r.PutDiskStats(w.root.ID, rows)
	})
	if err != nil {
		return err
	}
	for _, c := range put {
		if c.old.kind == tree.KindDir && c.stat.kind != tree.KindDir {
			w.unwatch(c.path)
		}
		if err := w.index.put(c.path, c.stat); err != nil {
			w.stale = true // the rows are ahead of the index
			return err
		}
	}
	for _, path := range removed {
		w.unwatch(path)
		w.index.remove(path)
	}
	for _, path := range later {
		s.later(path)
	}
	return nil
}

// hasDir reports whether the directory that a path is in is in the index, or is one of
// those that are about to be.
func (w *Workspace) hasDir(path string, dirs map[string]struct{}) bool {
	if path == "" {
		return true
	}
	dir := slashpath.Dir(path)
	if _, ok := dirs[dir]; ok {
		return true
	}
	n := w.index.find(dir)
	if n == nil || n.stat.kind != tree.KindDir {
		return false
	}
	dirs[dir] = struct{}{}
	return true
}

// sameContent reports whether a file is, as far as its stat tells, the one that the tree has.
func (c *change) sameContent() bool {
	return c.old.kind == tree.KindFile && c.old.ino == c.stat.ino && c.old.size == c.stat.size && c.old.mtime == c.stat.mtime
}

// take brings one change into the tree. It reports whether the index can say so.
func (w *Workspace) take(e *tree.Edit, c *change) (bool, error) {
	path := w.treePath(c.path)
	if c.vanished {
		return false, nil
	}
	if c.unread != nil {
		// What can be told without reading is its mode.
		if !c.sameContent() {
			return false, nil
		}
		c.stat.flags |= again
		c.stat.ctime = c.old.ctime // it may have changed since then
		if c.old.mode == c.stat.mode {
			return true, nil
		}
		return true, e.Chmod(path, uint32(c.stat.mode))
	}
	entry := tree.Entry{
		Kind: c.stat.kind, Path: path, Mode: uint32(c.stat.mode), MTime: time.Unix(0, c.stat.mtime),
		Target: c.target, Parts: c.parts,
	}
	switch c.stat.kind {
	case 0:
		entry.Kind = tree.KindDelete
	case tree.KindFile:
		entry.Size = c.stat.size
	default:
	}
	changed, err := e.Apply(&entry, tree.SkipSame|tree.WriteTombs|tree.RealParents|tree.Located)
	if err == nil && !changed && c.stat.kind == tree.KindFile && c.old.kind == tree.KindFile && c.old.mtime != c.stat.mtime {
		err = e.Chtimes(path, entry.MTime)
	}
	if changed {
		w.stats.settled.Add(1)
	}
	return err == nil, err
}
