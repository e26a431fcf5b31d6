package disk

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/tree"
)

// clear removes whatever has a name in an open directory, with all that is below it, and
// never through a link.
func (b *bringer) clear(dir int, path, name string) error {
	if err := b.w.fault("clear", path); err != nil {
		return err
	}
	st, err := statAt(dir, name)
	if err != nil {
		return err
	}
	if st.kind != tree.KindDir {
		if !temporary(name) {
			if _, err := b.overtake(dir, name, path); err != nil {
				return err
			}
		}
		return pathError("remove", path, retry(func() error { return unix.Unlinkat(dir, name, 0) }))
	}
	for attempt := 1; ; attempt++ {
		if err := b.empty(dir, path, name); err != nil {
			return err
		}
		err := retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
		// Somebody may be putting files into it.
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) || attempt == readAttempts {
			return pathError("remove", path, err)
		}
	}
}

// empty removes what is in a directory.
func (b *bringer) empty(dir int, path, name string) error {
	fd, err := openDirAt(dir, name)
	if denied(err) {
		if err = chmodAt(dir, name, 0o700); err == nil {
			fd, err = openDirAt(dir, name)
		}
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	list, err := allNames(fd)
	if err != nil {
		return err
	}
	opened := false
	for _, n := range list {
		err := b.clear(fd, under(path, n), n)
		if denied(err) && !opened {
			opened = true
			if st, serr := statFD(fd); serr == nil && unix.Fchmod(fd, uint32(st.mode)|0o700) == nil {
				err = b.clear(fd, under(path, n), n)
			}
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// prune removes from a directory what the index has and the tree does not.
func (b *bringer) prune(path string) error {
	n := b.w.index.find(path)
	if n == nil || n.stat.kind != tree.KindDir {
		return nil
	}
	for _, name := range n.sorted() {
		kid := under(path, name)
		it, err := b.w.lookup(b.ctx, kid)
		if err != nil {
			return err
		}
		switch {
		case it.kind != n.kids[name].stat.kind:
			fd, err := b.walk.open(path)
			if err == nil {
				err = b.clear(fd, kid, name)
			}
			if err != nil && !gone(err) {
				return err
			}
			b.forget(kid)
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
