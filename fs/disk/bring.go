package disk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A bringer makes paths of the directory what items say.
type bringer struct {
	w    *Workspace
	ctx  context.Context // of the call that it lives as long as
	root int
	walk *walker

	removed []string // from the index
	done    []string // put into the index
	dirs    []*item  // whose mode and time are set when all else is done
	foreign []string // paths that have what the index does not know
	kept    []changes.Kept
	stuck   *stuckList
	items   []*item
	leaving map[string]*leaving // files that are replaced or removed
	shut    []string            // directories that were opened up
	later   *released           // of earlier pages
	// recovers: it is not known what was planned, so that what is removed may be wanted elsewhere.
	recovers bool

	mu        sync.Mutex
	overtaken []lost.Version
	waits     int                 // for files to be closed
	disowned  map[string]struct{} // files whose owner or group could not be kept
}

func newBringer(ctx context.Context, w *Workspace, root int, stuck *stuckList) *bringer {
	return &bringer{w: w, ctx: ctx, root: root, walk: newWalker(root), stuck: stuck}
}

// run brings items, which are in the order of their paths: first what is not a file, one
// after the other, then files, several at once, then the modes of directories.
func (b *bringer) run(list []*item) error {
	files, err := b.prepareAll(list)
	if err == nil {
		err = b.files(files)
	}
	if err == nil {
		b.w.stats.brought.Add(int64(len(list)))
	}
	// Directories that were opened up for what is in them are closed again.
	err = errors.Join(err, b.finishDirs())
	for _, path := range b.foreign {
		b.w.index.again[path] = struct{}{}
	}
	return err
}

// prepareAll prepares items, and returns the files among them.
func (b *bringer) prepareAll(list []*item) ([]*item, error) {
	var files []*item
	for _, it := range list {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		file, err := b.prepare(it)
		if dir := slashpath.Dir(it.path); b.openedUp(dir, err) {
			file, err = b.prepare(it)
		}
		if err != nil {
			if err = b.stuck.add(it.path, err); err != nil {
				return nil, pathError("bring", it.path, err)
			}
			continue
		}
		if file {
			files = append(files, it)
		}
	}
	return files, nil
}

// prepare does what cannot be done beside something else. It reports whether a file is
// left to write.
func (b *bringer) prepare(it *item) (bool, error) {
	if it.path == "" {
		return false, b.mount(it)
	}
	dir, name := slashpath.Split(it.path)
	if it.kind == tree.KindDelete {
		if err := b.above(dir); err != nil {
			return false, err
		}
		fd, err := b.walk.open(dir)
		if err == nil {
			err = b.drop(fd, it.path, name)
		}
		if gone(err) {
			b.forget(it.path)
			err = nil
		}
		return false, err
	}
	fd, err := b.ensure(dir)
	if err != nil {
		return false, err
	}
	switch it.kind {
	case tree.KindDir:
		if it.purge {
			if err := b.prune(it.path); err != nil {
				return false, err
			}
			if fd, err = b.ensure(dir); err != nil {
				return false, err
			}
		}
		return false, b.mkdir(fd, name, it)
	case tree.KindSymlink:
		if err := b.makeRoom(fd, name, it.path); err != nil {
			return false, err
		}
		return false, b.link(fd, name, it)
	default:
		if b.w.index.find(it.path) == nil {
			return true, nil
		}
		return true, b.makeRoom(fd, name, it.path)
	}
}

// makeRoom removes a directory from where something else is to be. With what is not known
// it gets another name.
func (b *bringer) makeRoom(dir int, name, path string) error {
	st, err := statAt(dir, name)
	if err == nil && st.kind == tree.KindDir {
		var stays bool
		stays, err = (&clearer{bringer: b}).clear(dir, path, name)
		b.forget(path)
		if stays && err == nil {
			err = b.aside(dir, name, path)
		}
	}
	if gone(err) {
		return nil
	}
	return err
}

// keeps notes that a path stays although the tree does not have it any more, and some paths in it.
func (b *bringer) keeps(path string, staying []string) {
	k := changes.Kept{Path: b.w.treePath(path)}
	for _, s := range staying {
		if len(k.Names) == maxStaying {
			break
		}
		k.Names = append(k.Names, b.w.treePath(s))
	}
	k.More = len(staying) - len(k.Names)
	b.kept = append(b.kept, k)
	b.w.log.Info("what nobody has settled stays where an entry has removed all else", "path", path, "first", staying[0], "paths", len(staying))
}

// above makes the directories that the tree has on the way to something that it has no
// longer: an entry may have made them for what another one then removed.
func (b *bringer) above(dir string) error {
	for ; dir != ""; dir = slashpath.Dir(dir) {
		if n := b.w.index.find(dir); n != nil && n.stat.kind == tree.KindDir {
			return nil
		}
		it, err := b.w.lookup(b.ctx, dir)
		if err != nil {
			return err
		}
		if it.kind == tree.KindDir {
			_, err := b.ensure(dir)
			return err
		}
	}
	return nil
}

// mount is prepare for the directory itself.
func (b *bringer) mount(it *item) error {
	if it.purge {
		if err := b.emptyMount(); err != nil {
			return err
		}
		var err error
		if it, err = b.w.lookup(b.ctx, ""); err != nil {
			return err
		}
	}
	if it.kind == tree.KindDir {
		b.dirs = append(b.dirs, it)
	}
	return nil
}

// emptyMount removes what the tree does not have (any more) from the directory itself.
func (b *bringer) emptyMount() error {
	list, err := allNames(b.root)
	if err != nil {
		return err
	}
	for _, name := range list {
		if temporary(name) {
			continue
		}
		if n := b.w.index.root.kids.get(name); n != nil {
			it, err := b.w.lookup(b.ctx, name)
			if err != nil {
				return err
			}
			if it.kind == n.stat.kind { // it is there again
				if it.kind == tree.KindDir {
					b.dirs = append(b.dirs, it)
				}
				if err := b.prune(name); err != nil {
					return err
				}
				continue
			}
		}
		err := b.inDir("", func(root int) error { return b.drop(root, name, name) })
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// renew has a directory opened again: it may be another one.
func (b *bringer) renew(path string) {
	if slashpath.Within(b.walk.path, path) {
		b.walk.forget()
	}
}

// forget takes a path out of the index that is not in the tree any more, either.
func (b *bringer) forget(path string) {
	b.renew(path)
	if n := b.w.index.find(path); n != nil {
		b.replaces(n)
		n.each(b.replaces)
		b.w.unwatch(path)
		b.w.index.remove(path)
		b.removed = append(b.removed, path)
	}
}

// replaces notes what the index has of a node that is about to be another one.
func (b *bringer) replaces(n *node) {
	if !b.w.unclean || n.stat.kind == tree.KindDir {
		return
	}
	path := n.path()
	if _, known := b.w.replaced[path]; !known {
		if b.w.replaced == nil {
			b.w.replaced = map[string]stat{}
		}
		b.w.replaced[path] = n.stat
	}
}

// enter puts what was made into the index.
func (b *bringer) enter(path string, st stat) error {
	if n := b.w.index.find(path); st.kind != tree.KindDir && n != nil && n.stat.kind == tree.KindDir {
		b.forget(path) // with what was below it
	}
	if n := b.w.index.find(path); n != nil {
		b.replaces(n)
	}
	st.dev = 0 // what we make is on the device of the directory it is in
	if err := b.w.index.put(path, st); err != nil {
		return err
	}
	b.done = append(b.done, path)
	delete(b.leaving, path) // what was there tells nothing of what comes next
	delete(b.w.prints, path)
	return nil
}

// ensure opens a directory, and makes it when it is not there, whatever is in its place.
func (b *bringer) ensure(path string) (int, error) {
	fd, err := b.walk.open(path)
	if err == nil {
		// One that the index does not know is a command's of just now.
		if n := b.w.index.find(path); n == nil || n.stat.kind != tree.KindDir {
			err = unix.ENOENT
		}
	}
	if path == "" || !gone(err) && !denied(err) {
		return fd, err
	}
	dir, name := slashpath.Split(path)
	up, err2 := b.ensure(dir)
	if err2 != nil {
		return -1, err2
	}
	if denied(err) {
		if err := b.openUp(path); err != nil {
			return -1, err
		}
		return b.ensure(path)
	}
	it, err := b.w.lookup(b.ctx, path)
	if err != nil {
		return -1, err
	}
	if it.kind != tree.KindDir { // then what is to be in it is not in the tree any more, either
		it = &item{path: path, kind: tree.KindDir, mode: 0o755, mtime: time.Now().UnixNano()}
	}
	if err := b.mkdir(up, name, it); err != nil {
		return -1, err
	}
	return b.walk.open(path)
}

// mkdir makes a directory, or keeps the one that is there. If it is not the one that the
// index knows, what the index has below it stays: the next settle finds what has become
// of that.
func (b *bringer) mkdir(dir int, name string, it *item) error {
	var known stat
	if n := b.w.index.find(it.path); n != nil {
		known = n.stat
	}
	made := false
	was, err := b.look(dir, name, it.path)
	st := was.stat
	if err == nil && was.there && st.kind != tree.KindDir {
		err = b.makeWay(dir, name, it, was)
		was.there = false
	}
	if err == nil && !was.there {
		err = mkdirAt(dir, name)
		made = err == nil
		if made || errors.Is(err, unix.EEXIST) {
			st, err = statAt(dir, name)
		}
	}
	if err != nil {
		return err
	}
	if st.kind != tree.KindDir { // it came just now
		return unix.ENOTDIR
	}
	if !known.sameDir(&st) {
		b.renew(it.path)
		if !made {
			b.foreign = append(b.foreign, it.path)
		}
		if b.w.watch != nil {
			fd, err := openDirAt(dir, name)
			if err != nil {
				return err
			}
			b.w.watchDir(fd, it.path)
			closeFD(fd)
		}
	}
	b.dirs = append(b.dirs, it)
	return b.enter(it.path, st)
}

// finishDirs gives directories their modes and times, each after those below it.
func (b *bringer) finishDirs() error {
	slices.SortStableFunc(b.dirs, func(x, y *item) int { return slashpath.Compare(y.path, x.path) })
	var errs []error
	for i, it := range b.dirs {
		if i+1 < len(b.dirs) && b.dirs[i+1].path == it.path {
			continue // a later one says what counts
		}
		err := b.finishDir(it)
		if err == nil {
			continue
		}
		if !gone(err) { // when it is gone, that is news of its own
			if err := b.stuck.addMode(it.path, err); err != nil {
				errs = append(errs, pathError("bring", it.path, err))
			}
		}
		// The next settle takes it as it is, wherever it is.
		if n := b.w.index.find(it.path); n != nil {
			n.stat.mode = uint16(it.mode)
			b.done = append(b.done, it.path)
		}
	}
	return errors.Join(errs...)
}

func (b *bringer) finishDir(it *item) error {
	look := statFD
	chmod := unix.Fchmod
	fd, err := b.walk.open(it.path)
	if forbidden(err) { // its mode keeps us out
		dir, name := slashpath.Split(it.path)
		if fd, err = b.walk.open(dir); err == nil {
			look = func(up int) (stat, error) { return statAt(up, name) }
			chmod = func(up int, mode uint32) error { return chmodAt(up, name, mode) }
		}
	}
	if err != nil {
		return err
	}
	st, err := look(fd)
	if err != nil {
		return err
	}
	n := b.w.index.find(it.path)
	same := n != nil && n.stat.sameDir(&st)
	if !same && it.path != "" {
		return unix.ENOENT // another one has come to its place
	}
	if uint32(st.mode) != it.mode {
		if err := b.w.fault("finish", it.path); err != nil {
			return err
		}
		if err := dirfd.Retry(func() error { return chmod(fd, it.mode) }); err != nil {
			return err
		}
		if st, err = look(fd); err != nil {
			return err
		}
	}
	if it.path != "" {
		dir, name := slashpath.Split(it.path)
		up, err := b.walk.open(dir)
		if err != nil {
			return err
		}
		if err := setTimes(up, name, it.mtime); err != nil {
			return err
		}
	}
	if !same {
		return nil // the look at the directory itself comes to it
	}
	return b.enter(it.path, st)
}

// link makes a link.
func (b *bringer) link(dir int, name string, it *item) error {
	was, err := b.look(dir, name, it.path)
	if err != nil {
		return err
	}
	temp := tempName()
	err = symlinkAt(it.target, dir, temp)
	if err != nil {
		return err
	}
	if err = setTimes(dir, temp, it.mtime); err != nil {
		cleanTemp(dir, temp)
		return err
	}
	st, err := b.place(dir, temp, name, it, was)
	if err != nil {
		return err
	}
	if _, plain := rawname.Plain(it.target); !plain {
		st.flags |= rawTarget
	}
	return b.enter(it.path, st)
}
