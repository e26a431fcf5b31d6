package disk

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/tree"
)

// found is what is at a path that is about to become something else.
type found struct {
	there bool
	stat  stat
	known bool // the index has it as it is
	racy  bool // it may have changed since without a trace
	left  bool // a crash has left it, under a name of ours
	// touched: the index has it with other times, or as another file. It is known only if its content
	// is still that of Workspace.prints.
	touched bool
	// print is the manifest of the file that the tree had, if known, mode its mode.
	print *tree.Hash
	mode  *uint16
}

// odd reports whether it is neither file, directory nor link. It stays where it is.
func (f *found) odd() bool { return f.there && f.stat.kind == 0 }

// mayGo fails for what stays where it is: what is odd, and a file that may have changed and that we may not read.
func (f *found) mayGo(dir int, name, path string) error {
	switch {
	case f.odd():
		return errInTheWay
	case !f.there || f.stat.kind != tree.KindFile || f.settled() && !f.touched:
		return nil
	}
	return pathError("read", path, readable(dir, name))
}

// settled reports whether the store has the content.
func (f *found) settled() bool { return f.there && f.known && !f.racy }

// same reports whether the stat is of the same version after a renaming, which changes the
// ctime and nothing else.
func (f *found) same(st *stat) bool {
	return st.kind == f.stat.kind && st.ino == f.stat.ino && st.size == f.stat.size && st.mtime == f.stat.mtime && st.mode == f.stat.mode
}

// look finds out what is about to be replaced or removed.
func (b *bringer) look(dir int, name, path string) (found, error) {
	st, err := statOthers(dir, name)
	if gone(err) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	f := found{there: true, stat: st}
	n := b.w.index.find(path)
	switch {
	case n == nil:
	case st.kind == tree.KindDir:
		f.known = n.stat.sameDir(&st)
	case st.kind == tree.KindSymlink:
		f.known = n.stat.sameLink(&st) // its target never changes
	default:
		index := n.stat
		index.dev = st.dev
		f.known, f.racy, f.mode = index.same(&st), index.flags&unsure != 0, &index.mode
		if !f.known {
			// The ctime alone may tell of another name, or of a mode that was there for a moment.
			index.ctime = st.ctime
			f.known, f.racy = index.same(&st), true
		}
		if _, waits := b.w.prints[path]; waits && !f.known {
			f.touched = st.kind == index.kind && st.size == index.size && st.mode == index.mode
			f.known = f.touched
		}
	}
	return f, nil
}

var errNoExchange = errors.New("the file system cannot exchange names")

// place renames the item that is whole, under a temporary name, to where it belongs. was is
// what was there at the last look, nothing where there was none. A version that comes out
// and that nobody has settled is kept. place removes what is ours when it fails, else it
// returns what it is.
func (b *bringer) place(dir int, temp, name string, it *item, was found) (stat, error) {
	ours, err := statAt(dir, temp)
	if err != nil {
		return stat{}, err
	}
	if err = b.w.fault("place", it.path); err == nil {
		temp, err = b.swap(dir, temp, name, it, was)
	}
	if err != nil {
		b.leave(dir, temp, it, &ours)
		return stat{}, err
	}
	return b.placed(dir, name, it, &ours)
}

// placed is what the index says of what is ours and has its name now.
func (b *bringer) placed(dir int, name string, it *item, ours *stat) (stat, error) {
	if err := b.w.fault("placed", it.path); err != nil {
		return stat{}, err
	}
	st, err := statAt(dir, name)
	if err != nil || !ours.sameFile(&st) || ours.mtime != st.mtime {
		// Whatever has come to its place, or of it, since is somebody else's, and news.
		return *ours, nil
	}
	return st, nil
}

// swap is place without what an error makes necessary. It returns the temporary name as it
// is then.
func (b *bringer) swap(dir int, temp, name string, it *item, was found) (string, error) {
	for {
		if !was.there {
			err := renameNew(dir, temp, name)
			if errors.Is(err, unix.EEXIST) { // it came just now
				if was, err = b.look(dir, name, it.path); err != nil {
					return temp, err
				}
				continue
			}
			if errors.Is(err, errNoExchange) {
				err = b.replace(dir, temp, name, it, was)
			}
			return temp, pathError("rename", it.path, err)
		}
		if err := was.mayGo(dir, name, it.path); err != nil {
			return temp, err
		}
		if !isOut(temp) {
			// Should we die before the version that comes out is kept, its name tells Open.
			out := outName(name)
			if err := rename(dir, temp, out); err != nil {
				return temp, pathError("rename", it.path, err)
			}
			temp = out
		}
		if now, err := statAt(dir, name); err == nil && now.kind == tree.KindFile && now.ctime != was.stat.ctime {
			was.racy = true // it may have been written while the entry was
			if err := was.mayGo(dir, name, it.path); err != nil {
				return temp, err
			}
		}
		err := exchange(dir, temp, name)
		if gone(err) { // it went just now
			was = found{}
			continue
		}
		if errors.Is(err, errNoExchange) {
			return temp, pathError("rename", it.path, b.replace(dir, temp, name, it, was))
		}
		if err != nil {
			return temp, pathError("rename", it.path, err)
		}
		if temp, err = b.discard(dir, temp, it, was); err != nil {
			putBack(dir, temp, name)
		}
		return temp, err
	}
}

// putBack undoes an exchange, whatever commands have put under the name since. A version
// that cannot be put back keeps the temporary name.
func putBack(dir int, temp, name string) {
	for range putBackAttempts {
		err := exchange(dir, temp, name)
		if gone(err) { // nothing has the name
			err = renameNew(dir, temp, name)
		}
		if !errors.Is(err, unix.EEXIST) {
			return
		}
	}
}

// leave removes the file or link that is ours from a temporary name. Anything else there
// is the only copy of a command's, and gets a name that is settled. If ours was at its place
// for a moment, a command may have it open.
func (b *bringer) leave(dir int, temp string, it *item, ours *stat) {
	written := isOut(temp) && ours.kind == tree.KindFile && b.w.beingWritten(dir, temp)
	if written && it.lent {
		it.lent = b.copyBack(dir, temp, it) != nil
	}
	if written &&
		b.w.putOff(b.ctx, dir, b.root, temp, it, found{there: true, stat: *ours, known: true, racy: true, print: it.manifest()}) == nil {
		return
	}
	st, err := statAt(dir, temp)
	if gone(err) {
		return
	}
	if err == nil && st.sameFile(ours) && st.mtime == ours.mtime {
		if it.lent {
			if err = b.w.home.giveBack(it.object.number, dir, temp); err != nil {
				b.w.log.Warn("content that has arrived stays under a temporary name", "path", it.path, "name", temp, "err", err)
			}
			it.lent = err != nil
			return
		}
		cleanTemp(dir, temp)
		return
	}
	kept := keptPrefix + randomOf(temp)
	if err = renameNew(dir, temp, kept); err != nil {
		kept = temp
		b.w.littered.Store(true)
	}
	b.w.log.Warn("a version that a command wrote could not be stored; it has another name now", "path", it.path, "name", kept, "err", err)
}

// replace is place where names cannot be exchanged: what comes to the place between the
// two renamings is lost.
func (b *bringer) replace(dir int, temp, name string, it *item, was found) error {
	if !was.there { // nobody has looked
		var err error
		if was, err = b.look(dir, name, it.path); err != nil {
			return err
		}
	}
	if was.there {
		if err := b.makeWay(dir, name, it, was); err != nil {
			return err
		}
	}
	return rename(dir, temp, name)
}

// makeWay takes what has a name away from it, and keeps it unless it is known.
func (b *bringer) makeWay(dir int, name string, it *item, was found) error {
	if err := was.mayGo(dir, name, it.path); err != nil {
		return err
	}
	out := outName(name)
	err := rename(dir, name, out)
	if gone(err) {
		return nil
	}
	if err != nil {
		return pathError("rename", it.path, err)
	}
	if out, err = b.discard(dir, out, it, was); err != nil {
		e := renameNew(dir, out, name)
		if errors.Is(e, errNoExchange) {
			e = rename(dir, out, name)
		}
		if e != nil {
			b.w.littered.Store(true)
		}
	}
	return err
}

// discard disposes of what an item has taken the place of, which has the name out now.
// What was there at the last look is known to be what it is, unless it has changed. If there is an error, discard
// returns the name that the thing has then. A file that may have changed and that we may not read is an error, unless
// it has no place to go back to.
func (b *bringer) discard(dir int, out string, it *item, was found) (string, error) {
	st, err := statOthers(dir, out)
	if err != nil {
		return out, err
	}
	switch st.kind {
	case tree.KindDir:
		if rmdirAt(dir, out) == nil {
			return out, nil
		}
		return out, b.aside(dir, out, it.path)
	case tree.KindFile, tree.KindSymlink:
	default:
		if it.kind != tree.KindDelete {
			return out, errInTheWay // it came just now, and is put back
		}
		return out, b.aside(dir, out, it.path)
	}
	fd, written := -1, false
	if st.kind == tree.KindFile {
		fd, written = b.w.openOut(dir, out)
	}
	defer func() { closeIf(fd) }()
	if written && b.waitWritten(dir, out, &was) {
		was.print = b.printOf(it, &was)
		return out, b.w.putOff(b.ctx, dir, b.root, out, it, was)
	}
	if st, err = statOut(dir, out, fd); err != nil { // it may have changed since
		return out, err
	}
	known, print := was.there && was.known && was.same(&st) && !isNews(out), b.printOf(it, &was)
	if known && was.racy {
		if known, err = b.unchanged(dir, out, print); err != nil && !errors.Is(err, errUnreadable) {
			return out, err
		}
		if !known {
			if out, err = b.markNews(dir, out); err != nil {
				return out, err
			}
		}
	}
	if !known {
		print, err = b.save(dir, out, it, was)
		if unread := errors.Is(err, errUnreadable); unread && b.stuck == nil || !unread && tree.Code(err) != "" {
			return out, b.aside(dir, out, it.path)
		}
		if err != nil {
			return out, err
		}
	}
	if st.kind == tree.KindFile {
		if gone, err := b.rescue(dir, out); gone || err != nil {
			return out, err
		}
	}
	open := fd
	fd = -1
	return out, b.retireOpen(dir, out, open, it, &st, print, nil)
}

// stillKnown reports whether was, which look has returned, is known to the index. If a command has touched the
// file since, it also compares the content with the manifest in prints.
func (b *bringer) stillKnown(dir int, name, path string, was *found) bool {
	if !was.known || !was.touched {
		return was.known
	}
	print := b.w.prints[path]
	same, err := b.unchanged(dir, name, &print)
	return same && err == nil
}

// unchanged reports whether a file has what a manifest says, which may not be known.
func (b *bringer) unchanged(dir int, name string, print *tree.Hash) (bool, error) {
	if print == nil {
		return false, nil
	}
	v, err := b.w.version(context.WithoutCancel(b.ctx), dir, name, nil)
	return err == nil && tree.ManifestOf(v.Parts) == *print, err
}

// markNews has the name of a version on its way out say that nobody has settled it. From then
// on, that the store has the content says nothing: it is stored before it is kept.
func (b *bringer) markNews(dir int, out string) (string, error) {
	if !isOut(out) {
		return out, nil
	}
	news := newsName(out)
	if err := rename(dir, out, news); err != nil {
		return out, err
	}
	return news, nil
}

// printOf is the manifest of what the tree had at the path of an item, nil if that is not known.
func (b *bringer) printOf(it *item, was *found) *tree.Hash {
	if was.print != nil {
		return was.print
	}
	if it.meta {
		return it.manifest()
	}
	if l := b.leaving[it.path]; l != nil && !l.last {
		return &l.print
	}
	if print, known := b.w.prints[it.path]; known {
		return &print
	}
	return nil
}
