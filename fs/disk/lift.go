package disk

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// lift makes objects of files that a plan removes and whose content it wants elsewhere, before
// anything else is done: so a renamed file is renamed here too. One that a command has changed
// meanwhile stays where it is, as news, and what it had is gone. One that a command has open, or that
// cannot be renamed, is copied. If that fails it stays as news, too.
func (w *Workspace) lift(ctx context.Context, root int, p *plan) error {
	b := newBringer(ctx, w, root, nil)
	defer b.walk.forget()
	var placed []*object
	for _, path := range slices.SortedFunc(maps.Keys(p.leaving), slashpath.Compare) {
		l := p.leaving[path]
		if !l.wanted {
			continue
		}
		if err := b.lift(path, l); err != nil && !gone(err) {
			if l.object == nil {
				err = errors.Join(err, b.copyLeaving(path, l))
			}
			w.log.Warn("a file that an entry has renamed cannot be renamed here", "path", path, "copied", l.object != nil, "err", err)
		}
		if l.object != nil {
			placed = append(placed, l.object)
		} else {
			l.last = true
			p.last = append(p.last, path)
		}
	}
	if len(placed) > 0 {
		if err := w.placeAll(ctx, placed); err != nil {
			return err
		}
	}
	for _, it := range p.missing {
		if it.from != nil && it.from.object != nil {
			it.object = it.from.object
			it.object.files++
			it.object.left.Add(1)
		}
	}
	return nil
}

// placeAll notes in the tree's store that files are objects. Those of which it could not be noted, since
// the disk was full, are noted with the next ones, or by the next settle: nothing else knows where their
// content is.
func (w *Workspace) placeAll(ctx context.Context, list []*object) error {
	w.placing.Lock()
	defer w.placing.Unlock()
	w.unplaced = append(w.unplaced, list...)
	if len(w.unplaced) == 0 {
		return nil
	}
	files := make([]tree.Became, len(w.unplaced))
	for i, o := range w.unplaced {
		files[i] = tree.Became{Parts: o.parts, Object: o.number}
	}
	var drop []int64
	_, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) (err error) {
		drop, err = e.Place(files...)
		return err
	})
	if err == nil {
		w.unplaced = nil
		for _, number := range drop {
			w.home.Drop(number)
		}
	}
	return err
}

// lift makes an object of a file.
func (b *bringer) lift(path string, l *leaving) error {
	dir, name := slashpath.Split(path)
	fd, err := b.walk.open(dir)
	if err != nil {
		return err
	}
	was, err := b.look(fd, name, path)
	if err != nil || !was.there {
		return err
	}
	if was.stat.kind != tree.KindFile {
		return nil // it is news, and stays
	}
	o := &object{size: sizeOfParts(l.parts), parts: l.parts}
	out := outName(name)
	if err = b.w.fault("lift", path); err == nil {
		err = rename(fd, name, out)
	}
	if err != nil {
		return pathError("rename", path, err)
	}
	busy := b.busy(fd, out, &was)
	st, err := statAt(fd, out)
	same := err == nil && !busy && was.known && was.same(&st)
	if err == nil && (was.racy || !same) {
		got, e := b.w.readFile(b.ctx, fd, out, nil)
		same = e == nil && !busy && tree.ManifestOf(got.parts) == l.print
		if e == nil && busy && tree.ManifestOf(got.parts) == l.print {
			// Nobody can tell what else is written to it.
			o.number, err = b.w.copyOf(b.ctx, fd, out, l)
			if l.object = o; err != nil || o.number == 0 {
				l.object = nil
			}
		}
	}
	if !same {
		return errors.Join(err, b.unlift(fd, out, path, name, &was, l.object != nil))
	}
	number, err := b.w.home.adopt(fd, out)
	if err != nil {
		if errors.Is(err, unix.EXDEV) {
			b.w.apart.Store(true) // Secure copies from now on
		}
		return errors.Join(err, b.unlift(fd, out, path, name, &was, true))
	}
	o.number, o.lifted = number, st
	l.object = o
	return nil
}

// unlift gives a file back the name that it had. settled says that its content is what the tree had.
func (b *bringer) unlift(dir int, out, path, name string, was *found, settled bool) error {
	err := renameNew(dir, out, name)
	if errors.Is(err, errNoExchange) {
		err = rename(dir, out, name)
	}
	if errors.Is(err, unix.EEXIST) { // there is a newer one
		if _, err = b.discard(dir, out, &item{path: path, kind: tree.KindDelete}, found{}); err != nil {
			b.w.littered.Store(true)
		}
		return err
	}
	if err != nil {
		b.w.littered.Store(true)
		return pathError("rename", path, err)
	}
	if n := b.w.index.find(path); settled && was.known && n != nil {
		if st, err := statAt(dir, name); err == nil && was.same(&st) {
			n.stat.ctime = st.ctime // the renaming is no change
		}
	}
	return nil
}

// copyLeaving makes an object of what a file has that cannot be renamed. If there is none, the file counts as
// news: it may be the last that has its content.
func (b *bringer) copyLeaving(path string, l *leaving) error {
	dir, name := slashpath.Split(path)
	var number int64
	fd, err := b.walk.open(dir)
	if err == nil {
		number, err = b.w.copyOf(b.ctx, fd, name, l)
	}
	if number != 0 {
		l.object = &object{number: number, size: sizeOfParts(l.parts), parts: l.parts}
		return nil
	}
	if n := b.w.index.find(path); n != nil {
		n.stat.ctime--
	}
	return err
}

// copyOf makes an object of what a file has that an entry renames, 0 if that is not what the tree
// had any more.
func (w *Workspace) copyOf(ctx context.Context, dir int, name string, l *leaving) (int64, error) {
	if w.clones(sizeOfParts(l.parts)) {
		if fd, err := openFileAt(dir, name); err == nil {
			number, err := w.cloneObject(ctx, fd, l.parts)
			closeFD(fd)
			if err == nil {
				return number, nil
			}
		}
	}
	out := w.home.dir.Writer()
	k := &keeper{out: out}
	got, err := w.readFile(ctx, dir, name, k)
	if err = errors.Join(err, out.Close()); err != nil || tree.ManifestOf(got.parts) != l.print {
		if k.object != 0 {
			w.home.Drop(k.object)
		}
		return 0, err
	}
	return k.object, nil
}

// findObjects finds objects that become files of items that were looked up.
func (w *Workspace) findObjects(ctx context.Context, list []*item) error {
	if len(list) == 0 {
		return nil
	}
	_, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		var whole []*item
		var numbers []int64
		var parts [][]tree.Part
		for _, it := range list {
			it.object = nil
			number, err := e.Whole(it.parts)
			if err != nil && tree.Code(err) == "" {
				return err
			}
			if err != nil || number == 0 {
				continue
			}
			whole, numbers, parts = append(whole, it), append(numbers, number), append(parts, it.parts)
		}
		used, err := e.Used(parts, 2)
		if err != nil {
			return err
		}
		for i, it := range whole {
			number := numbers[i]
			there, err := w.home.dir.Has(number, 0)
			if _, lent := w.home.lent[number]; err == nil && !there && (lent && !w.unclean || w.home.hasOther(it.path)) {
				// It has become the file, and nobody has noted that. (Otherwise it may be on its way,
				// or somebody may have taken objects away.)
				_, err = e.Release([]tree.Became{{Parts: it.parts, Object: number, Files: 1}}, nil)
			}
			if err != nil {
				return err
			}
			if there && used[i] == 1 && it.mode&0o400 != 0 {
				it.object = &object{number: number, parts: it.parts, files: 1}
				it.object.left.Add(1)
				for _, p := range it.parts {
					it.object.size += p.Size
				}
			}
		}
		return nil
	})
	return err
}

// inherits reports whether what is made in an open directory gets more from it than a file that is
// renamed to it would: its group, or an access control list.
func inherits(fd int) bool {
	st, err := dirfd.Stat(fd)
	if err != nil || st.Mode&unix.S_ISGID != 0 {
		return true
	}
	return hasDefaultACL(fd)
}

// become makes an object the file of an item. It reports whether that was possible; was is what is
// there, as it is found to be then.
func (f *fileBringer) become(dir int, name string, it *item, was *found) (made stat, done bool, err error) {
	o, w := it.object, f.b.w
	if o.files == 0 || f.b.isShut(it.path) || o.left.Load() != 1 || w.apart.Load() || !o.foreign && f.inherits(dir, it.path) {
		return stat{}, false, nil
	}
	replaced := ""
	if was.there && was.stat.kind == tree.KindFile {
		replaced = name
	}
	if made, err = f.dress(o, dir, replaced, it); err != nil {
		return stat{}, false, nil //nolint:nilerr // it is copied
	}
	size := o.size
	if o.foreign {
		size = made.size
	}
	if !was.there {
		if err := w.fault("place", it.path); err != nil {
			return stat{}, false, err
		}
		switch err := w.home.take(o.number, size, dir, name); {
		case err == nil:
			it.lent = true
			made, err = f.b.placed(dir, name, it, &made)
			return made, true, err
		case !errors.Is(err, unix.EEXIST):
			return stat{}, false, f.cannotTake(err)
		}
		if *was, err = f.b.look(dir, name, it.path); err != nil {
			return stat{}, false, err
		}
		if was.odd() {
			return stat{}, false, errInTheWay
		}
	}
	temp := tempName()
	if out := outName(name); was.there && out[tempLength+1:] == name {
		temp = out // the names are exchanged next
	}
	if err := w.home.take(o.number, size, dir, temp); err != nil {
		return stat{}, false, f.cannotTake(err)
	}
	it.lent = true
	made, err = f.b.place(dir, temp, name, it, *was)
	if err != nil && it.lent {
		w.log.Warn("a command has overwritten what had just arrived; that is gone", "path", it.path, "err", err)
		return it.vanished(), true, nil
	}
	return made, err == nil, err
}

// cannotTake is nil for errors after which the object is copied.
func (f *fileBringer) cannotTake(err error) error {
	if errors.Is(err, unix.EXDEV) {
		f.b.w.apart.Store(true)
	}
	if isFull(err) {
		return err
	}
	return nil
}

// dress gives an object what the file has that it becomes, beside content and name. It refuses one
// that cannot become a file.
func (f *fileBringer) dress(o *object, dir int, replaced string, it *item) (st stat, err error) {
	if replaced == "" {
		// Names of the objects directory are ours alone, and opening takes as long as all else here.
		err = f.b.w.home.dir.Named(o.number, func(in int, name string) error {
			st, err = f.b.dress(o, it, func() (stat, error) { return statAt(in, name) },
				func() error { return chmodFileAt(in, name, it.mode) }, func() error { return setTimes(in, name, it.mtime) })
			return err
		})
		if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
			return st, err
		} // before Linux 6.6
	}
	fd, err := f.b.w.home.dir.Handle(o.number)
	if err != nil {
		return stat{}, err
	}
	defer closeFD(fd)
	if replaced != "" {
		if err := f.b.adopt(fd, dir, replaced, it); err != nil {
			return stat{}, err
		}
	}
	return f.b.dress(o, it, func() (stat, error) { return statFD(fd) },
		func() error { return dirfd.Retry(func() error { return unix.Fchmod(fd, it.mode) }) }, func() error { return setTimesFD(fd, it.mtime) })
}

// dress is fileBringer.dress with an object that is reached in one way.
func (b *bringer) dress(o *object, it *item, look func() (stat, error), chmod, touch func() error) (stat, error) {
	st, err := look()
	l := &o.lifted
	if err == nil && l.kind != 0 && (st.size != l.size || st.mtime != l.mtime) {
		o.foreign = true
	}
	switch {
	case err != nil:
	case st.kind != tree.KindFile || st.flags&linked != 0:
		err = errSpecial
	case !o.foreign && st.size != o.size:
		err = errNowhere // it is cut
	case uint32(st.mode) != it.mode:
		err = chmod()
		st.mode = uint16(it.mode)
	}
	if err == nil && !o.foreign && st.mtime != it.mtime {
		// A command that opened the file just before it was lifted may write to it meanwhile, and
		// this hides that.
		o.unsure = l.kind != 0
		if err = b.w.fault("dress", it.path); err == nil {
			err = touch()
		}
		st.mtime = it.mtime
	}
	return st, err
}

// rescue makes an object of a file that is about to go if the tree has its content elsewhere, where it
// has not come to yet. It reports whether the file is gone then.
func (b *bringer) rescue(dir int, name string) (bool, error) {
	if !b.recovers {
		return false, nil
	}
	got, err := b.w.readFile(b.ctx, dir, name, nil)
	if err != nil {
		return false, ignore(err)
	}
	return b.w.adoptNeeded(b.ctx, dir, name, got.parts)
}

// adoptNeeded makes an object of a file that consists of what is nowhere else.
func (w *Workspace) adoptNeeded(ctx context.Context, dir int, name string, parts []tree.Part) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	needed, err := w.needed(ctx, parts)
	if !needed || err != nil {
		return false, err
	}
	number, err := w.home.adopt(dir, name)
	if errors.Is(err, unix.EXDEV) {
		return false, w.copyNeeded(ctx, dir, name)
	}
	if err != nil {
		return false, err
	}
	w.rescued++
	return true, w.placeAll(ctx, []*object{{number: number, parts: parts}})
}

// copyNeeded makes an object of what a file has.
func (w *Workspace) copyNeeded(ctx context.Context, dir int, name string) error {
	out := w.home.dir.Writer()
	k := &keeper{out: out}
	got, err := w.readFile(ctx, dir, name, k)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	w.rescued++
	return w.placeAll(ctx, []*object{{number: k.object, parts: got.parts}})
}

// recoverAll finds content that a crash has left on its way between objects and the directory.
func (w *Workspace) recoverAll(ctx context.Context, root int) error {
	astray, err := w.recoverObjects(ctx)
	if err != nil {
		return err
	}
	dirs, paths := map[string]struct{}{}, map[string]struct{}{}
	err = w.cfg.Tree.View(ctx, func(tx tree.Tx) error {
		rows, err := rowsOf(tx)
		if err != nil {
			return err
		}
		return rows.DiskJournal(w.root.ID, 0, func(_ int64, row []byte) error {
			eachOfRow(row, func(path string, _ bool) {
				dir := slashpath.Dir(path)
				dirs[dir], paths[path] = struct{}{}, struct{}{}
			}, func(string, tree.Hash) {})
			return nil
		})
	})
	if err == nil && len(astray) > 0 {
		err = w.explain(ctx, astray, paths)
	}
	if err != nil {
		return err
	}
	walk := newWalker(root)
	defer walk.forget()
	for _, dir := range slices.SortedFunc(maps.Keys(dirs), slashpath.Compare) {
		fd, err := walk.open(dir)
		if err == nil {
			err = w.recoverIn(ctx, fd)
		}
		if err != nil && !gone(err) && !denied(err) {
			return pathError("recover", dir, err)
		}
	}
	return nil
}

// explain finds out whether objects that are not there have become files just before a crash. Each is
// then the content of a path that the journal lists, and they were brought together. Otherwise somebody
// has taken objects away.
func (w *Workspace) explain(ctx context.Context, astray map[int64]struct{}, paths map[string]struct{}) error {
	if w.home.dir.Made() || len(astray) > w.limits.page {
		return nil
	}
	var list []*item
	for path := range paths {
		it, err := w.lookup(ctx, path)
		if err != nil {
			return err
		}
		if len(it.parts) > 0 {
			list = append(list, it)
		}
	}
	var lent map[int64]struct{}
	_, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		lent = map[int64]struct{}{}
		for _, it := range list {
			number, err := e.Whole(it.parts)
			if err != nil && tree.Code(err) == "" {
				return err
			}
			if _, is := astray[number]; is {
				lent[number] = struct{}{}
			}
		}
		return nil
	})
	if err == nil && len(lent) == len(astray) {
		w.home.lent = lent
	}
	return err
}

// recoverIn looks through what a crash has left in a directory.
func (w *Workspace) recoverIn(ctx context.Context, fd int) error {
	list, err := allNames(fd)
	if err != nil {
		return err
	}
	for _, name := range list {
		if !temporary(name) {
			continue
		}
		got, err := w.readFile(ctx, fd, name, nil)
		if err != nil {
			if err = ignore(err); err != nil && !errors.Is(err, errSpecial) {
				return err
			}
			continue
		}
		if !isOut(name) {
			_, err = w.adoptNeeded(ctx, fd, name, got.parts)
		} else if needed, e := w.needed(ctx, got.parts); needed || e != nil {
			err = e
			if err == nil { // it may be a version of its own, too
				err = w.copyNeeded(ctx, fd, name)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyBack makes an object again of what was to be the file of an item, and that a command has open
// for writing, unless it has been written to.
func (b *bringer) copyBack(dir int, name string, it *item) error {
	fd, err := openFileAt(dir, name)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	temp := tempName()
	out, err := openAt(dir, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer closeFD(out)
	parts := it.parts
	if b.w.clone(b.ctx, out, fd, parts) {
		parts = nil
	}
	buf := make([]byte, tree.ChunkSize)
	for i, p := range parts {
		n := 0
		if err == nil {
			n, err = preadFull(fd, buf[:p.Size], int64(i)*tree.ChunkSize)
		}
		if err == nil && tree.Sum(buf[:n]) != p.Hash {
			err = errNowhere
		}
		if err == nil {
			err = writeFull(out, buf[:n])
		}
	}
	if err == nil {
		err = b.w.home.giveBack(it.object.number, dir, temp)
	}
	if err != nil {
		cleanTemp(dir, temp)
	}
	return err
}
