package disk

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/tree"
)

// files writes files, several directories at once.
func (b *bringer) files(list []*item) error {
	var groups [][]*item
	for from := 0; from < len(list); {
		dir, _ := split(list[from].path)
		to := from + 1
		for to < len(list) && to-from < 64 {
			if d, _ := split(list[to].path); d != dir {
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
	errs := make([]error, min(b.w.cfg.Parallel, len(groups)))
	for i := range errs {
		wg.Go(func() { // waited for below
			f := &fileBringer{b: b, walk: newWalker(b.root)}
			defer f.walk.forget()
			var mine []made
			for errs[i] == nil {
				at := int(next.Add(1)) - 1
				if at >= len(groups) {
					break
				}
				for _, it := range groups[at] {
					st, err := f.bring(it)
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
			all = append(all, mine...)
		})
	}
	wg.Wait()
	for _, m := range all {
		if err := b.enter(m.path, m.stat); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// A fileBringer writes files, one after the other.
type fileBringer struct {
	b    *bringer
	walk *walker
	buf  []byte
}

func (f *fileBringer) bring(it *item) (stat, error) {
	if err := f.b.ctx.Err(); err != nil {
		return stat{}, err
	}
	dir, name := split(it.path)
	fd, err := f.walk.open(dir)
	if err != nil {
		return stat{}, err
	}
	was, err := f.b.overtake(fd, name, it.path)
	if err != nil {
		return stat{}, err
	}
	if it.meta && was.known {
		if st, err := f.meta(fd, name, it, &was.stat); err == nil {
			return st, nil
		} // else all of it is written
	}
	return f.write(fd, name, it, was)
}

// meta changes mode and time of a file that has the content already.
func (f *fileBringer) meta(dir int, name string, it *item, cur *stat) (stat, error) {
	fd, err := openFileAt(dir, name)
	if err != nil {
		return stat{}, err
	}
	defer closeFD(fd)
	st, err := statFD(fd)
	if err != nil {
		return st, err
	}
	if st.ino != cur.ino || st.kind != tree.KindFile || st.ctime != cur.ctime {
		return st, unix.ESTALE
	}
	if err := unix.Fchmod(fd, it.mode); err != nil {
		return st, err
	}
	if err := setTimes(dir, name, it.mtime); err != nil {
		return st, err
	}
	return statFD(fd)
}

func (f *fileBringer) write(dir int, name string, it *item, was found) (stat, error) {
	if err := f.b.w.fault("write", it.path); err != nil {
		return stat{}, err
	}
	temp := f.b.w.temp.next()
	out, err := openAt(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return stat{}, err
	}
	// It is closed under the name that nobody looks at: under its own it would be read by
	// the next settle, as what others write is.
	fd, err := openAt(dir, temp, unix.O_RDONLY, 0)
	if err == nil {
		defer closeFD(fd)
		err = f.fill(out, it)
	}
	closeFD(out)
	if err == nil {
		err = setTimes(dir, temp, it.mtime)
	}
	if err == nil {
		err = f.b.place(dir, temp, name, it.path, was)
	}
	if err != nil {
		cleanTemp(dir, temp)
		return stat{}, err
	}
	// Of what is open: whatever has come to its place since is somebody else's.
	st, err := statFD(fd)
	if now := time.Now(); err == nil && racyTime(st.mtime, now, now) {
		st.flags |= again
	}
	return st, err
}

// fill gives an open file the content and the mode of an item.
func (f *fileBringer) fill(fd int, it *item) error {
	for _, p := range it.parts {
		var err error
		if f.buf, err = f.b.w.cfg.Forest.Chunk(f.b.ctx, p.Hash, f.buf[:0]); err != nil {
			return err
		}
		if err := writeFull(fd, f.buf); err != nil {
			return pathError("write", it.path, err)
		}
	}
	return pathError("chmod", it.path, retry(func() error { return unix.Fchmod(fd, it.mode) }))
}
