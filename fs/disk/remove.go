package disk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A clearer removes paths. It is for one goroutine.
type clearer struct {
	*bringer
	staying []string      // paths that it leaves
	queue   *retiredQueue // of one of several, else nil
}

// clear removes what has a name in an open directory, with all that is below it, as far as
// it is what the index knows, and never through a link. Anything else stays, with the
// directories that it is in: what nobody has settled, and what no tree can have. It reports
// whether something stays.
func (b *clearer) clear(dir int, path, name string) (stays bool, err error) {
	if err := b.w.fault("clear", path); err != nil {
		return false, err
	}
	was, err := b.look(dir, name, path)
	switch {
	case err != nil || !was.there:
		return false, err
	case !b.stillKnown(dir, name, path, &was) && !b.isRemoved(dir, name, path, &was):
		b.staying = append(b.staying, path)
		return true, nil
	case was.stat.kind != tree.KindDir:
		return b.unlink(dir, path, name, was)
	}
	for attempt := 1; ; attempt++ {
		if stays, err := b.empty(dir, path, name); err != nil || stays {
			return stays, err
		}
		err := rmdirAt(dir, name)
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return false, pathError("remove", path, err)
		}
		if attempt == readAttempts { // somebody is putting files into it
			b.staying = append(b.staying, path)
			return true, nil
		}
	}
}

// isFull reports whether the disk is full, or all that its user may have of it. A file that is too large for the disk,
// which tree.NoRoom has too, is not it.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// unlink removes a file or link that is known. It is looked at once more where no command
// finds it, and put back if it has changed.
func (b *clearer) unlink(dir int, path, name string, was found) (stays bool, err error) {
	out := outName(name)
	it := &item{path: path, kind: tree.KindDelete}
	err = rename(dir, name, out)
	if (isFull(err) || errors.Is(err, unix.ENAMETOOLONG)) && was.settled() && !b.recovers && !b.w.beingWritten(dir, name) {
		// A removal must not need room for a longer name.
		return false, b.retire(dir, name, it, &was.stat, b.printOf(it, &was))
	}
	if err != nil {
		if gone(err) {
			err = nil
		}
		return false, pathError("remove", path, err)
	}
	fd, written := -1, false
	if was.stat.kind == tree.KindFile {
		fd, written = b.w.openOut(dir, out)
	}
	defer func() { closeIf(fd) }()
	if written && b.waitWritten(dir, out, &was) {
		was.print = b.printOf(it, &was)
		if err := b.w.putOff(b.ctx, dir, b.root, out, it, was); err != nil {
			return true, errors.Join(err, pathError("rename", path, renameNew(dir, out, name)))
		}
		return false, nil
	}
	st, err := statOut(dir, out, fd)
	known := err == nil && was.same(&st)
	if known && was.racy && was.stat.kind == tree.KindFile {
		if print := b.printOf(it, &was); print != nil {
			known, err = b.unchanged(dir, out, print)
		} else {
			known, err = b.removedAs(dir, out, path)
		}
		if errors.Is(err, errUnreadable) {
			err = nil
		}
	}
	if known && was.stat.kind == tree.KindFile {
		if gone, err := b.rescue(dir, out); gone || err != nil {
			return false, err
		}
	}
	if known {
		open := fd
		fd = -1
		return false, b.retireOpen(dir, out, open, it, &st, b.printOf(it, &was), b.queue)
	}
	back := renameNew(dir, out, name)
	if errors.Is(back, unix.EEXIST) { // there is a newer one
		b.staying = append(b.staying, path)
		_, e := b.discard(dir, out, it, found{})
		if e != nil {
			b.w.littered.Store(true)
		}
		return true, errors.Join(err, e)
	}
	if errors.Is(back, errNoExchange) {
		back = rename(dir, out, name)
	}
	b.staying = append(b.staying, path)
	return true, errors.Join(err, pathError("rename", path, back))
}

// isRemoved reports whether a file that the index knows with other times, or as another file, is the version that the tree
// has removed, although the process ended before the journal had its print. Then it is known, and racy.
func (b *clearer) isRemoved(dir int, name, path string, was *found) bool {
	if was.known || was.stat.kind != tree.KindFile {
		return false
	}
	if n := b.w.index.find(path); n == nil || n.stat.kind != tree.KindFile {
		return false
	}
	is, err := b.removedAs(dir, name, path)
	if err != nil || !is {
		return false
	}
	was.known, was.racy = true, true
	return true
}

// removedAs reports whether a file is the version of a path that the tree has removed before the workspace was opened, so
// that the journal may lack its print. One whose content the tree has elsewhere may be the last that has it.
func (b *bringer) removedAs(dir int, name, path string) (bool, error) {
	if !b.recovers || !b.w.wasLeft(path) {
		return false, nil
	}
	ctx := context.WithoutCancel(b.ctx)
	tomb, err := b.w.cfg.Tree.Entry(ctx, b.w.treePath(path))
	if err != nil && tree.Code(err) == "" {
		return false, err
	}
	if err != nil || tomb.Kind != tree.KindDelete || tomb.Prior == "" {
		return false, nil
	}
	v, err := b.w.version(ctx, dir, name, nil)
	if err != nil || tree.Fingerprint(&v) != tomb.Prior {
		return false, err
	}
	wanted := false
	err = b.w.cfg.Tree.View(ctx, func(tx tree.Tx) (err error) {
		for i := 0; err == nil && !wanted && i < len(v.Parts); i++ {
			wanted, err = tx.Referenced(v.Parts[i].Hash)
		}
		return err
	})
	return err == nil && !wanted, err
}

// empty removes what is in a directory. A directory that something stays in keeps its mode.
func (b *clearer) empty(dir int, path, name string) (stays bool, err error) {
	before, err := statOthers(dir, name)
	if err != nil {
		return false, err
	}
	fd, err := openDirAt(dir, name)
	mode, opened := before.mode, false
	if n := b.w.index.find(path); b.w.unclean && n != nil && n.stat.sameDir(&before) && n.stat.mode != mode && n.stat.mode|0o700 == mode {
		mode, opened = n.stat.mode, true // a crash has left it open
	}
	if denied(err) {
		opened = true
		if err = chmodAt(dir, name, uint32(mode)|0o700); err == nil {
			fd, err = openDirAt(dir, name)
		}
	}
	if err != nil {
		return false, err
	}
	defer closeFD(fd)
	defer func() {
		if opened && (stays || err != nil) {
			err = errors.Join(err, dirfd.Retry(func() error { return unix.Fchmod(fd, uint32(mode)) }))
		}
	}()
	list, err := allNames(fd)
	if err != nil {
		return false, err
	}
	list, stays = b.together(fd, path, list)
	for _, n := range list {
		left, err := b.entry(fd, path, n)
		if denied(err) && !opened {
			opened = true
			if unix.Fchmod(fd, uint32(before.mode)|0o700) == nil {
				left, err = b.entry(fd, path, n)
			}
		}
		if err != nil && !gone(err) {
			return stays, err
		}
		stays = stays || left
	}
	return stays, nil
}

// clearAtOnce is how many names in a directory are worth being cleared several at once.
const clearAtOnce = 16

// together clears names in a directory that is emptied, several at once. It returns those that could
// not be cleared, and whether something stays of the others.
func (b *clearer) together(fd int, path string, list []string) (left []string, stays bool) {
	if len(list) < clearAtOnce || b.queue != nil || b.recovers {
		return list, false
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []retired
	for range b.w.cfg.Parallel {
		wg.Go(func() { // waited for below
			c := &clearer{bringer: b.bringer, queue: newRetiredQueue(b.w.cfg.Parallel)}
			var mine []string
			some := false
			for at := next.Add(1) - 1; at < int64(len(list)); at = next.Add(1) - 1 {
				stay, err := c.entry(fd, path, list[at])
				if some = some || stay; err != nil && !gone(err) {
					mine = append(mine, list[at])
				}
			}
			mu.Lock()
			defer mu.Unlock()
			left, stays, b.staying = append(left, mine...), stays || some, append(b.staying, c.staying...)
			open = append(open, c.queue.files...)
		})
	}
	wg.Wait()
	for _, r := range open {
		b.w.hold(b.ctx, r)
	}
	slices.Sort(left)
	slices.Sort(b.staying)
	return left, stays
}

// entry clears a name in a directory that is emptied.
func (b *clearer) entry(fd int, path, name string) (stays bool, err error) {
	if temporary(name) {
		return false, b.reclaim(fd, path, name)
	}
	return b.clear(fd, slashpath.Join(path, name), name)
}

// prune removes from a directory what the index has and the tree does not.
func (b *bringer) prune(path string) error {
	n := b.w.index.find(path)
	if n == nil || n.stat.kind != tree.KindDir {
		return nil
	}
	for _, name := range n.sorted() {
		kid := slashpath.Join(path, name)
		it, err := b.w.lookup(b.ctx, kid)
		if err != nil {
			return err
		}
		switch {
		case it.kind != n.kids.get(name).stat.kind:
			err := b.inDir(path, func(fd int) error { return b.drop(fd, kid, name) })
			if err != nil && !gone(err) {
				return err
			}
		case it.kind == tree.KindDir:
			// It may be another one, that an entry for something in it has made.
			b.dirs = append(b.dirs, it)
			if err := b.prune(kid); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop clears a path that the tree does not have any more, and takes it out of the index.
// The next settle takes up what stays.
func (b *bringer) drop(dir int, path, name string) error {
	c := &clearer{bringer: b}
	stays, err := c.clear(dir, path, name)
	if err != nil {
		return err
	}
	b.forget(path)
	if stays {
		b.foreign = append(b.foreign, path)
		b.keeps(path, c.staying)
	}
	return nil
}
