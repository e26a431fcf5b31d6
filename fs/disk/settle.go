package disk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Settle returns once the tree has all that was in the directory when it was called.
func (w *Workspace) Settle(ctx context.Context) error {
	fd, st, err := w.begin(ctx)
	if err == nil {
		defer w.release()
		defer closeFD(fd)
		err = w.settle(ctx, fd, st)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", w.cfg.Dir, err)
	}
	return nil
}

// SettleEnded is Settle for a command that began at since and has ended. Long files that it
// cannot have written are left to the next Settle: those that somebody has open for writing,
// and those that have not changed since then.
func (w *Workspace) SettleEnded(ctx context.Context, since time.Time) error {
	fd, st, err := w.begin(ctx)
	if err == nil {
		defer w.release()
		defer closeFD(fd)
		w.begun = since.Add(-coarseGranularity).UnixNano()
		defer func() { w.begun = 0 }()
		err = w.settle(ctx, fd, st)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", w.cfg.Dir, err)
	}
	return nil
}

// SettleBy implements changes.Gradual.
func (w *Workspace) SettleBy(ctx context.Context, paths int, bytes int64, some func() bool) error {
	fd, st, err := w.begin(ctx)
	if err == nil {
		defer w.release()
		defer closeFD(fd)
		w.gradual = &gradual{max(paths, 1), bytes, some}
		defer func() { w.gradual = nil }()
		err = w.settle(ctx, fd, st)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", w.cfg.Dir, err)
	}
	return nil
}

// leaveStrangers leaves long files out that the command of SettleEnded cannot have written.
// The next look finds them again.
func (w *Workspace) leaveStrangers(root int, s *scan) {
	walk := newWalker(root)
	defer walk.forget()
	left := false
	for _, c := range s.changes {
		if c.stat.kind != tree.KindFile || c.stat.size < longBytes {
			continue
		}
		dir, name := slashpath.Split(c.path)
		if fd, err := walk.open(dir); err == nil && (c.stat.ctime < w.begun || beingWritten(fd, name)) {
			c.vanished, left = true, true
			s.later(c.path)
		}
	}
	if left {
		s.changes = slices.DeleteFunc(s.changes, func(c *change) bool { return c.vanished })
	}
}

// settle is Settle for whoever has the turn.
func (w *Workspace) settle(ctx context.Context, root int, st stat) error {
	if w.stale {
		if err := w.reload(ctx); err != nil {
			return err
		}
	}
	w.finishOuts(ctx, root)
	w.reap(ctx, false)
	if err := w.placeAll(ctx, nil); err != nil {
		return err
	}
	if w.pending && !w.hopeless(root) {
		if w.watch != nil {
			w.watch.peek(w.readAgain) // bring stores what it replaces, unless the index knows it
		}
		if err := w.tolerate(w.bring(ctx, root, nil, nil), -1); err != nil {
			return err
		}
	}
	err := w.look(ctx, root, st)
	if err != nil {
		w.full = true
	}
	return err
}

// reload reads the index from the rows.
func (w *Workspace) reload(ctx context.Context) error {
	x := newIndex()
	err := w.cfg.Tree.View(ctx, func(tx tree.Tx) error {
		rows, err := rowsOf(tx)
		if err != nil {
			return err
		}
		return x.load(rows, w.root.ID)
	})
	if err == nil {
		x.readAgain(w.index)
		w.index, w.stale, w.full = x, false, true
	}
	return err
}

// look finds what has changed and records it.
func (w *Workspace) look(ctx context.Context, root int, st stat) error {
	if w.littered.Swap(false) {
		w.unclean, w.full = true, true
	}
	s := w.newScan(ctx, st.dev)
	s.clean = w.unclean
	st.dev = 0
	old := w.index.root.stat
	other := !old.sameDir(&st)
	if other || old.mode != st.mode || old.mtime == 0 {
		s.add(&change{path: "", old: copied(&old), stat: st})
	}
	full := w.full || other || w.watch == nil
	missed := w.home.takeMissed()
	for path := range missed {
		w.index.again[path] = struct{}{}
		if n := w.index.find(path); n != nil && n.stat.kind == tree.KindFile {
			n.stat.flags |= again // it may be as it was, and was away meanwhile
		}
	}
	var dirty map[string]map[string]why
	if w.watch != nil {
		var lost bool
		dirty, lost = w.watch.take()
		full = full || lost
		w.readAgain(dirty)
	}
	s.all = full
	var err error
	if full {
		err = w.scanAll(root, s)
	} else {
		err = w.scanSome(root, s, dirty)
	}
	w.stopWatching()
	if err != nil {
		return err
	}
	for _, c := range s.changes {
		dir, name := slashpath.Split(c.path)
		c.read = dirty[dir][name]&whyRead != 0
	}
	for _, c := range s.changes {
		_, c.keep = missed[c.path]
		c.read = c.read || c.keep
	}
	cleaned := w.cleanAll(ctx, root, s.temps)
	if w.begun != 0 {
		w.leaveStrangers(root, s)
	}
	clear(w.index.again)
	if err := w.record(ctx, root, s); err != nil {
		return err
	}
	w.skips.update(root, s)
	w.skips.takeRaw(w.index)
	w.full = !cleaned
	for _, path := range s.again {
		w.index.again[path] = struct{}{}
	}
	return nil
}

// readAgain marks the files in the index that are to be read whatever their times say. The
// mark stays when a look fails, and counts when all is looked at or a file was renamed.
func (w *Workspace) readAgain(dirty map[string]map[string]why) {
	links := map[identity]struct{}{} // files with other names, of which nothing is told
	for dir, list := range dirty {
		for name, look := range list {
			if look&whyRead == 0 {
				continue
			}
			if n := w.index.find(slashpath.Join(dir, name)); n != nil && n.stat.kind == tree.KindFile {
				n.stat.flags |= again
				if n.stat.flags&linked != 0 {
					links[identity{n.stat.dev, n.stat.ino}] = struct{}{}
				}
			}
		}
	}
	if len(links) == 0 {
		return
	}
	for n := range w.index.linked {
		if _, ok := links[identity{n.stat.dev, n.stat.ino}]; ok {
			n.stat.flags |= again
		}
	}
}

// scanAll looks at everything.
func (w *Workspace) scanAll(root int, s *scan) error {
	w.stats.passes.Add(1)
	fd, err := openDirAt(root, ".")
	if err != nil {
		return err
	}
	s.dir(fd, w.index.root, "")
	s.wg.Wait()
	return s.err
}

// scanSome looks at what was told of, and at what nobody would tell of: what could not be
// read, or may have changed just after that, and files with several names, since what is
// done under one of them is told of that one only.
func (w *Workspace) scanSome(root int, s *scan, dirty map[string]map[string]why) error {
	add := func(path string, look why) {
		dir, name := slashpath.Split(path)
		if dirty[dir] == nil {
			dirty[dir] = map[string]why{}
		}
		dirty[dir][name] |= look
	}
	for path := range w.index.again {
		if path != "" {
			add(path, whyDeep|whyRead)
		}
	}
	for n := range w.index.linked {
		add(n.path(), 0)
	}
	walk := newWalker(root)
	defer walk.forget()
	for _, dir := range slices.SortedFunc(maps.Keys(dirty), slashpath.Compare) {
		if s.covers(dir) {
			continue // what is to be read there is marked in the index
		}
		if err := s.some(walk, dir, dirty[dir]); err != nil {
			s.fail(err)
		}
		if s.failed() {
			break
		}
	}
	s.wg.Wait()
	return s.err
}
