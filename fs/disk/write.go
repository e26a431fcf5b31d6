package disk

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// files writes files, several directories at once. Directories whose modes keep us from
// writing to them are opened up, and what belongs there is written then.
func (b *bringer) files(list []*item) error {
	shut, err := b.writeFiles(list, true)
	if err != nil || len(shut) == 0 {
		return err
	}
	tried := map[string]struct{}{}
	for _, it := range shut {
		dir := slashpath.Dir(it.path)
		if _, ok := tried[dir]; !ok {
			tried[dir] = struct{}{}
			_ = b.openUp(dir) // what cannot be written then says why
		}
	}
	_, err = b.writeFiles(shut, false)
	return err
}

// writeFiles writes files. With again it returns those for which we had no right, and notes
// nothing about them.
func (b *bringer) writeFiles(list []*item, again bool) ([]*item, error) {
	var groups [][]*item
	for from := 0; from < len(list); {
		dir := slashpath.Dir(list[from].path)
		to := from + 1
		for to < len(list) && to-from < 64 {
			if d := slashpath.Dir(list[to].path); d != dir {
				break
			}
			to++
		}
		groups = append(groups, list[from:to])
		from = to
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	type made struct {
		path string
		stat stat
	}
	var all []made
	var shut []*item
	errs := make([]error, min(b.w.cfg.Parallel, len(groups)))
	for i := range errs {
		wg.Go(func() { // waited for below
			f := &fileBringer{b: b, walk: newWalker(b.root)}
			defer f.walk.forget()
			var mine []made
			var mineShut []*item
			for errs[i] == nil {
				at := int(next.Add(1)) - 1
				if at >= len(groups) {
					break
				}
				f.prefetch(groups[at])
				for _, it := range groups[at] {
					st, err := f.bring(it)
					if again && forbidden(err) {
						mineShut = append(mineShut, it)
						continue
					}
					if err != nil {
						if err = b.stuck.add(it.path, err); err != nil {
							errs[i] = pathError("bring", it.path, err)
							break
						}
						continue
					}
					mine = append(mine, made{it.path, st})
				}
			}
			if errs[i] != nil {
				next.Store(int64(len(groups)))
			}
			mu.Lock()
			defer mu.Unlock()
			all, shut = append(all, mine...), append(shut, mineShut...)
		})
	}
	wg.Wait()
	for _, m := range all {
		if err := b.enter(m.path, m.stat); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(shut, func(a, b *item) int { return slashpath.Compare(a.path, b.path) })
	return shut, errors.Join(errs...)
}

// A fileBringer writes files, one after the other.
type fileBringer struct {
	b     *bringer
	walk  *walker
	buf   []byte
	ahead map[tree.Hash][]byte // content of files of one group, in few pieces
	// inheriting: files get more from the directory that was looked at last than their names.
	dir        string
	looked     bool
	inheriting bool
}

func (f *fileBringer) inherits(fd int, path string) bool {
	if dir := slashpath.Dir(path); !f.looked || dir != f.dir {
		f.dir, f.looked, f.inheriting = dir, true, inherits(fd)
	}
	return f.inheriting
}

// prefetch reads the content of small files at once: to begin and end a view takes about as
// long as to read what such a file has. What is not to be had is left to chunk, which says
// why.
func (f *fileBringer) prefetch(group []*item) {
	clear(f.ahead)
	if f.b.stuck.noRoom() {
		return
	}
	var want []tree.Hash
	var size int64
	for _, it := range group {
		if it.meta || it.object != nil || len(it.parts) != 1 || it.parts[0].Size > smallFile || size+it.parts[0].Size > prefetchBytes {
			continue
		}
		p := it.parts[0]
		if _, twice := f.ahead[p.Hash]; twice {
			continue
		}
		if f.ahead == nil {
			f.ahead = map[tree.Hash][]byte{}
		}
		f.ahead[p.Hash] = nil
		want, size = append(want, p.Hash), size+p.Size
	}
	if err := f.b.w.cfg.Forest.Chunks(f.b.ctx, want, f.ahead); err != nil {
		clear(f.ahead)
	}
}

// errNowhere says that the content of an entry is neither in the store, nor in objects, nor in files:
// a command has changed the file that it had become before that was noted.
var errNowhere = errors.New("its content is nowhere any more")

// chunk returns the bytes of a chunk, which are good until the next call.
func (f *fileBringer) chunk(h tree.Hash) ([]byte, error) {
	if b := f.ahead[h]; b != nil {
		return b, nil
	}
	var err error
	f.buf, err = f.b.w.cfg.Forest.Chunk(f.b.ctx, h, f.buf[:0])
	if errors.Is(err, tree.ErrUnknownHash) || errors.Is(err, tree.ErrDamaged) {
		err = fmt.Errorf("%w (%w): %w", errNowhere, unix.ENODATA, err) // it holds up nothing else
	}
	return f.buf, err
}

func (f *fileBringer) bring(it *item) (stat, error) {
	if err := f.b.ctx.Err(); err != nil {
		return stat{}, err
	}
	dir, name := slashpath.Split(it.path)
	fd, err := f.walk.open(dir)
	if err != nil {
		return stat{}, err
	}
	var was found
	if _, waited := f.b.w.stuck[it.path]; waited || f.b.w.index.find(it.path) != nil {
		if was, err = f.b.look(fd, name, it.path); err == nil {
			err = was.mayGo(fd, name, it.path)
		}
		if err != nil {
			return stat{}, err
		}
	} // else most likely nothing is there; place finds it if there is
	if it.meta && f.keeps(fd, name, it, &was) {
		if st, err := f.meta(fd, name, it, &was.stat); err == nil {
			return st, nil
		} // else all of it is written
	}
	st, err := f.write(fd, name, it, was)
	if err == nil && it.object != nil {
		it.object.left.Add(-1)
	}
	return st, err
}

// keeps reports whether what is at the place of an item has the item's content, as far as can be told.
// To find out may have changed the ctime, which is in was then.
func (f *fileBringer) keeps(dir int, name string, it *item, was *found) bool {
	if !was.there || !was.known || was.stat.kind != tree.KindFile || !was.racy {
		return was.settled() && was.stat.kind == tree.KindFile
	}
	if same, err := f.b.unchanged(dir, name, it.manifest()); !same || err != nil {
		return false
	}
	st, err := statAt(dir, name)
	if err != nil || !was.same(&st) {
		return false
	}
	was.stat = st
	return true
}

// meta changes mode and time of a file that has the content already, one that keeps us out by its
// name.
func (f *fileBringer) meta(dir int, name string, it *item, cur *stat) (stat, error) {
	look := func() (stat, error) { return statAt(dir, name) }
	chmod := func() error { return chmodAt(dir, name, it.mode) }
	fd, err := openFileAt(dir, name)
	if err == nil {
		defer closeFD(fd)
		look = func() (stat, error) { return statFD(fd) }
		chmod = func() error { return unix.Fchmod(fd, it.mode) }
	} else if !denied(err) {
		return stat{}, err
	}
	st, err := look()
	if err != nil {
		return st, err
	}
	if st.ino != cur.ino || st.kind != tree.KindFile || st.ctime != cur.ctime {
		return st, unix.ESTALE
	}
	if uint32(st.mode) != it.mode {
		if err := dirfd.Retry(chmod); err != nil {
			return st, err
		}
	}
	if err := setTimes(dir, name, it.mtime); err != nil && !(forbidden(err) && uint32(st.mode) == it.mode) {
		return st, err
	} // else it is somebody else's, who alone may set its time
	st, err = look()
	st.flags |= again // a command may have written to it before its time was set
	return st, err
}

func (f *fileBringer) write(dir int, name string, it *item, was found) (stat, error) {
	if err := f.b.w.fault("write", it.path); err != nil {
		return stat{}, err
	}
	if it.from != nil && it.object == nil {
		// A command has removed the file that had the content: the next settle finds this one gone.
		return it.vanished(), nil
	}
	if it.object != nil {
		made, done, err := f.become(dir, name, it, &was)
		if it.object.foreign || it.object.unsure {
			made.flags |= again
		}
		if done || err != nil {
			return settles(made), err
		}
	}
	if err := f.b.fits(it); err != nil {
		return stat{}, err
	}
	temp := tempName()
	replaced := ""
	if was.there && was.stat.kind == tree.KindFile {
		replaced = name
	}
	err := f.make(dir, temp, replaced, it)
	if isFull(err) && f.b.w.reap(f.b.ctx, true) {
		cleanTemp(dir, temp)
		err = f.make(dir, temp, replaced, it)
	}
	if err == nil {
		err = setTimes(dir, temp, it.mtime)
	}
	if err != nil {
		cleanTemp(dir, temp)
		if errors.Is(err, errNowhere) && f.isGone(dir, name, it) {
			f.b.w.log.Warn("what an entry brought is gone, since a command has overwritten it", "path", it.path)
			return it.vanished(), nil
		}
		return stat{}, err
	}
	st, err := f.b.place(dir, temp, name, it, was)
	return settles(st), err
}

// isGone reports whether the content of an item is gone for good, so that what is at its place counts,
// or that nothing is: it was in files only, or a command has overwritten the file that it became.
// Content that is missing although nobody has taken it is not: somebody may bring it back.
func (f *fileBringer) isGone(dir int, name string, it *item) bool {
	was, err := f.b.look(dir, name, it.path)
	if err == nil && (!was.there || f.b.stillKnown(dir, name, it.path, &was)) {
		is, err := f.b.w.cfg.Forest.Gone(f.b.ctx, it.parts)
		return is && err == nil
	}
	return err == nil
}

// vanished is what the index says of a file that a command has taken away as soon as it was made: the
// next settle finds what is there.
func (it *item) vanished() stat {
	return stat{kind: tree.KindFile, mode: uint16(it.mode), size: sizeOfParts(it.parts), mtime: it.mtime, flags: again}
}

// manifest is that of a file, nil for anything else.
func (it *item) manifest() *tree.Hash {
	if it.kind != tree.KindFile {
		return nil
	}
	print := tree.ManifestOf(it.parts)
	return &print
}

// settles is the stat of a file that was just made.
func settles(st stat) stat {
	if now := time.Now(); racyTime(st.mtime, now, now) {
		st.flags |= again
	}
	return st
}

// fits refuses, once something did not fit on the disk, a file that does not, either: not
// each of many is to be written as far as there is room.
func (b *bringer) fits(it *item) error {
	if !b.stuck.noRoom() {
		return nil
	}
	var size int64
	for _, p := range it.parts {
		size += p.Size
	}
	if room, known := b.w.room(b.root); known && size > room {
		return pathError("write", it.path, unix.ENOSPC)
	}
	return nil
}

// clone is Workspace.clone for an object that has all of an item.
func (f *fileBringer) clone(dst int, it *item) bool {
	if it.object == nil || it.object.foreign || !f.b.w.clones(it.object.size) {
		return false
	}
	src, err := f.b.w.home.dir.Handle(it.object.number)
	if err != nil {
		return false // it has become a file
	}
	defer closeFD(src)
	return f.b.w.clone(f.b.ctx, dst, src, it.parts)
}

// make makes a file with the content and the mode of an item, and all else of the file that it
// replaces, if any. It is closed under the name
// that nobody looks at: under its own it would be read by the next settle, as what others
// write is.
func (f *fileBringer) make(dir int, name, replaced string, it *item) error {
	if err := f.b.w.fault("make", it.path); err != nil {
		return err
	}
	fd, err := openAt(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, it.mode&0o777)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	parts := it.parts
	if f.clone(fd, it) {
		parts = nil
	}
	for _, p := range parts {
		data, err := f.chunk(p.Hash)
		if err != nil {
			return err
		}
		if err := writeFull(fd, data); err != nil {
			return pathError("write", it.path, err)
		}
	}
	if replaced != "" {
		if err := f.b.adopt(fd, dir, replaced, it); err != nil {
			return err
		}
	}
	st, err := statFD(fd)
	if err != nil || uint32(st.mode) == it.mode {
		return err
	}
	// The process's umask, bits that a file is not made with, or what came with its owner.
	return pathError("chmod", it.path, dirfd.Retry(func() error { return unix.Fchmod(fd, it.mode) }))
}
