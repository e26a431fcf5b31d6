package disk

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Apply applies entries to the tree, all or none of them, and brings them to the
// directory. Those outside of the mount are in the tree only. With a changes.PendingError
// the result counts all the same.
func (w *Workspace) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	var done changes.Applied
	fd, st, err := w.begin(ctx)
	if err != nil {
		return done, fmt.Errorf("apply to %s: %w", w.cfg.Dir, err)
	}
	defer w.release()
	defer closeFD(fd)
	if err := w.settle(ctx, fd, st); err != nil {
		return done, fmt.Errorf("apply to %s: settle: %w", w.cfg.Dir, err)
	}
	hopeless := w.hopeless(fd)
	var p *plan
	var made map[tree.Hash]int64 // objects of content that was only in files, by manifest
	plan := func(e *tree.Edit) error {
		if p != nil {
			made = p.made
		}
		p = newPlan(w, uint32(st.mode), made)
		e.Changing(p.changes)
		done = changes.Applied{}
		for entry, err := range entries(e) {
			if err != nil {
				return err
			}
			done.Entries++
			changed, err := p.apply(e, &entry, how)
			if err != nil {
				return err
			}
			if changed {
				done.Changed++
			}
		}
		stands := func(it *item) (bool, error) { return p.stands(e, it) }
		if err := p.locate(ctx, e, stands, func(list []*object) error { return p.share(e, list) }); err != nil {
			return err
		}
		if how&changes.AnyRoom == 0 {
			if err := p.fits(e, fd); err != nil {
				return err
			}
		}
		if hopeless && p.onlyAdds() {
			if err := p.leaveJournal(e); err != nil {
				return err
			}
		}
		if err := p.finish(e); err != nil {
			return err
		}
		if also == nil {
			return nil
		}
		return also(e)
	}
	for range planAttempts {
		done.Rev, err = w.cfg.Tree.Update(ctx, plan)
		if !errors.Is(err, errCopyFirst) {
			break
		}
		if err = p.copies(ctx); err != nil {
			break
		}
	}
	if p != nil {
		p.unused(err != nil)
	}
	if err != nil {
		return changes.Applied{}, err
	}
	for _, number := range p.drop {
		w.home.Drop(number)
	}
	for _, it := range p.items {
		if it != nil {
			w.cfg.Forest.Arrived(it.parts)
		}
	}
	if len(p.order) == 0 {
		return done, nil
	}
	w.pending = true
	// It is decided: an end of the call changes nothing of it.
	brought := w.bring(context.WithoutCancel(ctx), fd, p, &done)
	err = w.tolerate(brought, w.counted.Load())
	if err != nil {
		return done, &changes.PendingError{Err: err}
	}
	if stuck, ok := errors.AsType[*stuckError](brought); ok && slices.ContainsFunc(p.order, stuck.has) {
		return done, &changes.PendingError{Err: brought, Partly: true}
	}
	return done, nil
}

// An item is what a path of the directory is to become.
type item struct {
	path   string
	kind   tree.Kind
	mode   uint32
	mtime  int64
	parts  []tree.Part
	target string
	// purge: what was there was removed in between, so that a directory keeps nothing that
	// the tree does not have.
	purge bool
	// meta: the content is what it was.
	meta bool
	// print is the fingerprint of an item of which nothing else is known.
	print string
	// object is what the content is, of a file that is new; nil if it is to be copied.
	object *object
	// from is what has the content, and is removed.
	from *leaving
	lent bool // the object has left for the directory
}

func itemOf(path string, e *tree.Entry) *item {
	return &item{path: path, kind: e.Kind, mode: e.Mode & tree.ModeMask, mtime: tree.Nanos(e.MTime), parts: e.Parts, target: e.Target}
}

// fingerprint is the print of the item (tree.Fingerprint), "" for a removal.
func (it *item) fingerprint() string {
	if it.print != "" {
		return it.print
	}
	return tree.Fingerprint(&tree.Entry{Kind: it.kind, Mode: it.mode, Parts: it.parts, Target: it.target})
}

// A plan collects what a batch of entries means for the directory.
type plan struct {
	dirMode uint32
	// items are by path; the last one for a path counts. nil stands for one that is to be
	// looked up, because what comes after it may have changed it as well.
	items  map[string]*item
	order  []string            // their paths, and those of items that were not kept
	dirs   map[string]struct{} // above items
	purged map[string]struct{} // paths that were removed in between
	links  map[string]struct{} // links that the batch makes
	dirty  bool                // the mount may be gone
	after  int64               // up to which row the journal is left as it is, 0 for none
	// journal are the rows of the journal that finish has written, unless there are older ones: first
	// the manifests of printed, then order. taken of these entries were brought.
	journal []journalRow
	printed []string
	taken   int
	// now is the path of the entry that is applied, if it is a file, and old the file that the path
	// was so far.
	now string
	old *leaving
	contents
}

func newPlan(w *Workspace, dirMode uint32, made map[tree.Hash]int64) *plan {
	return &plan{items: map[string]*item{}, purged: map[string]struct{}{}, dirMode: dirMode, contents: contents{w: w, made: made}}
}

// stands reports whether the tree has what an item says, and no later entry's. It asks the tree only if
// a later entry may have changed the path.
func (p *plan) stands(e *tree.Edit, it *item) (bool, error) {
	if p.items[it.path] == it {
		return true, nil
	}
	now, err := e.Entry(p.w.treePath(it.path))
	if err != nil && tree.Code(err) == "" {
		return false, err
	}
	return err == nil && now.Kind == tree.KindFile && slices.Equal(now.Parts, it.parts), nil
}

var errMount = fmt.Errorf("%w: the workspace's directory cannot be something else", iofs.ErrPermission)

func (p *plan) apply(e *tree.Edit, entry *tree.Entry, how tree.ApplyMode) (bool, error) {
	above := slashpath.Within(p.w.cfg.Mount, entry.Path)
	if above && (entry.Kind == tree.KindFile || entry.Kind == tree.KindSymlink) {
		return false, &iofs.PathError{Op: "apply", Path: entry.Path, Err: errMount}
	}
	rel, inside := p.w.where(entry.Path)
	again := p.items[rel] != nil
	p.now, p.old = "", nil
	if entry.Kind == tree.KindFile {
		p.now = rel
	}
	real, through := "", entry.Kind != tree.KindDelete && how&tree.RealParents == 0 && (!inside || p.throughLink(rel))
	if through {
		var err error
		if real, err = realPath(e, entry.Path); err != nil {
			return false, err
		}
	}
	if inside && !through && !hidden(rel) {
		how |= tree.Located // or else locate fails
	}
	changed, err := e.Apply(entry, how)
	if err != nil || !changed {
		return false, err
	}
	if above && entry.Kind == tree.KindDelete {
		p.dirty = true
		p.add(&item{kind: tree.KindDelete, purge: true})
		return true, nil
	}
	if through {
		if real == "" { // what was in the way has made room
			info, err := e.Lstat(entry.Path)
			if err != nil {
				return true, err
			}
			real = info.Path
		}
		rel, inside = p.w.where(real)
	}
	if !inside || hidden(rel) {
		return true, nil
	}
	it := itemOf(rel, entry)
	it.purge = entry.Kind != tree.KindDir
	if p.old != nil && !again && !through {
		// The file that the path was tells whether there is content to write.
		it.meta = slices.Equal(p.old.parts, entry.Parts) && !p.w.isStuck(rel)
		p.leaves(p.old) // also of one that keeps its content, which may have to be written anew
	}
	if it.kind == tree.KindFile && !it.meta {
		if err := p.content(e, it, entry.Size); err != nil {
			return true, err
		}
	}
	p.add(it)
	return true, nil
}

// changes notes what the tree has of a file that an entry gives something else, or removes: with
// a directory that it is in, or since it is in the place of one.
func (p *plan) changes(path string, parts []tree.Part, print tree.Hash, removed bool) {
	rel, inside := p.w.where(path)
	if !inside {
		return
	}
	n := p.w.index.find(rel)
	if n == nil || n.stat.kind != tree.KindFile {
		return
	}
	// A file with other names stays under those.
	l := &leaving{path: rel, parts: parts, print: print, removed: removed && n.stat.flags&linked == 0}
	if p.w.isStuck(rel) { // the file is still what it was before what waits
		l.removed = false
		waiting, known := p.w.prints[rel]
		l.print, l.last = waiting, !known
	}
	if rel == p.now {
		l.removed, p.old = false, l
		return
	}
	p.leaves(l)
}

// realPath is where an entry belongs whose path leads through links; "" if not all above it
// are directories, or links to some.
func realPath(e *tree.Edit, path string) (string, error) {
	dir, name := slashpath.Split(path)
	info, err := e.Stat(dir)
	switch {
	case err != nil && tree.Code(err) == "":
		return "", err
	case err != nil || info.Kind != tree.KindDir:
		return "", nil
	}
	return slashpath.Join(info.Path, name), nil
}

// throughLink reports whether a directory above a path is a link.
func (p *plan) throughLink(path string) bool {
	n := p.w.index.root
	for i := 0; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if len(p.links) > 0 {
			if _, ok := p.links[path[:i]]; ok {
				return true
			}
		}
		if n != nil {
			name := slashpath.Base(path[:i])
			if n = n.kids.get(name); n != nil && n.stat.kind == tree.KindSymlink {
				return true
			}
		}
	}
	return false
}

func (p *plan) add(it *item) {
	if it.kind == tree.KindSymlink {
		if p.links == nil {
			p.links = map[string]struct{}{}
		}
		p.links[it.path] = struct{}{}
	}
	p.supersede(it)
	old, known := p.items[it.path]
	if old != nil {
		it.purge = it.purge || old.purge
	}
	if !known {
		p.order = append(p.order, it.path)
	}
	if it.purge {
		p.purged[it.path] = struct{}{}
	}
	if len(p.items) < p.w.limits.kept || known {
		p.items[it.path] = it
	}
}

// supersede finds items that are not what the tree has any more once it has this one: what
// is below something that is no directory, and what is no directory above something.
func (p *plan) supersede(it *item) {
	if p.dirs == nil {
		p.dirs = map[string]struct{}{}
	}
	if _, above := p.dirs[it.path]; above && it.kind != tree.KindDir {
		for path := range p.items {
			if slashpath.Within(path, it.path) {
				p.items[path] = nil
			}
		}
		for path := range p.dirs {
			if slashpath.Within(path, it.path) {
				delete(p.dirs, path)
			}
		}
	}
	for dir := it.path; dir != ""; {
		dir = slashpath.Dir(dir)
		if _, known := p.dirs[dir]; known {
			break
		}
		p.dirs[dir] = struct{}{}
		if old := p.items[dir]; old != nil && old.kind != tree.KindDir {
			p.items[dir] = nil
		}
	}
}

// onlyAdds reports whether no entry of a batch changes what is stuck, or removes anything, which may make
// room.
func (p *plan) onlyAdds() bool {
	for path, it := range p.items {
		_, stuck := p.w.stuck[path]
		_, above := p.w.stuckDirs[path]
		if stuck || it == nil || it.kind == tree.KindDelete || above && it.kind != tree.KindDir {
			return false
		}
	}
	return len(p.items) == len(p.order)
}

// leaveJournal has the plan bring only the rows that finish writes: it skips those that the journal has now.
func (p *plan) leaveJournal(e *tree.Edit) error {
	rows, err := rowsOf(e.Tx())
	if err != nil {
		return err
	}
	p.after, err = rows.LastDiskJournal(p.w.root.ID)
	return err
}

// finish writes the journal.
func (p *plan) finish(e *tree.Edit) error {
	if len(p.order) == 0 {
		return nil
	}
	if p.dirty {
		// The directory is there, whatever was deleted.
		entry := tree.Entry{Kind: tree.KindDir, Path: p.w.cfg.Mount, Mode: p.dirMode, MTime: e.Now()}
		if _, err := e.Apply(&entry, tree.SkipSame); err != nil {
			return err
		}
	}
	rows, err := rowsOf(e.Tx())
	if err != nil {
		return err
	}
	before, err := rows.LastDiskJournal(p.w.root.ID)
	if err != nil {
		return err
	}
	j := &journalWriter{w: p.w, rows: rows}
	for _, path := range p.racy {
		if l := p.leaving[path]; !l.last {
			if err := j.addPrint(path, l.print); err != nil {
				return err
			}
			p.printed = append(p.printed, path)
		}
	}
	for _, path := range p.order {
		_, purge := p.purged[path]
		if err := j.add(path, purge); err != nil {
			return err
		}
	}
	if err := j.flush(); err != nil {
		return err
	}
	if before == p.after { // older rows come first otherwise
		p.journal = j.written
	}
	return nil
}

// bring brings what the journal lists to the directory. known is what was planned of it, if it was
// just now; done is where it is noted what has come out and what stays, if not nil. Paths
// that cannot be brought hold up no others: the error is a *stuckError then, and the journal
// has them still.
func (w *Workspace) bring(ctx context.Context, root int, known *plan, done *changes.Applied) error {
	stuck, later := &stuckList{}, &released{}
	after := int64(0)
	if known != nil && known.after > 0 {
		after = known.after
		stuck.stays(w.stuck)
	}
	w.onlyRoom = false
	defer w.home.takes(nil)
	var kept map[string]*item
	if known != nil {
		kept = known.items
	}
	if known != nil {
		if err := w.lift(ctx, root, known); err != nil {
			return err
		}
	}
	for {
		var p page
		var err error
		if known != nil && len(known.journal) > 0 {
			p = known.writtenPage()
		} else if p, err = w.journalPage(ctx, after); err != nil {
			return err
		}
		if known != nil {
			for _, path := range known.last {
				delete(w.prints, path)
			}
		}
		var found []*item // that were looked up
		list := make([]*item, 0, len(p.items))
		seen := map[string]int{}
		for _, row := range p.items {
			if i, ok := seen[row.path]; ok {
				list[i].purge = list[i].purge || row.purge
				continue
			}
			if stuck.has(row.path) { // it was put behind the others
				continue
			}
			it := kept[row.path]
			if it == nil {
				if it, err = w.lookup(ctx, row.path); err != nil {
					return err
				}
				if len(it.parts) > 0 {
					found = append(found, it)
				}
			}
			it.purge = it.purge || row.purge
			seen[row.path] = len(list)
			list = append(list, it)
		}
		if len(list) == 0 {
			err := stuck.err()
			if err != nil && w.rescued > 0 {
				stuck, w.rescued = &stuckList{}, 0 // it may be what was missing
				continue
			}
			w.pending = err != nil
			// Other paths are what the tree says now: what they were before tells nothing of them.
			maps.DeleteFunc(w.prints, func(path string, _ tree.Hash) bool { return !isStuck(stuck.paths, path) })
			return err
		}
		slices.SortFunc(list, func(a, b *item) int { return slashpath.Compare(a.path, b.path) })
		if err := w.findObjects(ctx, found); err != nil {
			return err
		}
		w.home.takes(list)
		b := newBringer(ctx, w, root, stuck)
		b.items, b.recovers, b.later = list, known == nil, later
		if known != nil {
			b.leaving = known.leaving
		}
		err = b.run(list)
		b.walk.forget()
		if done != nil {
			b.report(done)
		}
		if err == nil && w.cfg.Sync {
			err = syncAll(root)
		}
		if err != nil {
			// What was done is in the index, so that it is not taken for somebody else's.
			return errors.Join(err, w.note(ctx, b, page{}))
		}
		if err := w.note(ctx, b, p); err != nil {
			return err
		}
		for _, it := range list {
			if kept[it.path] == nil && !stuck.has(it.path) && w.isLate(it.path, known != nil) {
				w.late.Add(1)
			}
		}
	}
}

// lookup is what the tree has of a path of the directory.
func (w *Workspace) lookup(ctx context.Context, path string) (*item, error) {
	e, err := w.cfg.Tree.Entry(ctx, w.treePath(path))
	if errors.Is(err, iofs.ErrNotExist) {
		e, err = tree.Entry{Kind: tree.KindDelete}, nil
	}
	if err != nil {
		return nil, err
	}
	return itemOf(path, &e), nil
}
