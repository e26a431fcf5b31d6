package disk

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A copy of a whole file shares the blocks of the other one where the file system lets it:
// nothing is written then, and nothing is used up. Else it is read, hashed and written. The kernel's copy
// (copy_file_range) is no third way: what was copied has to be read for its hash all the same, and
// on file systems that share nothing both together cost more than reading and writing.

// errNoClone says that a file could not be cloned: it is copied.
var errNoClone = errors.New("the file cannot be cloned")

// clone fills an empty file, open for reading and writing, with all that another one has, if the
// file system lets them share it. It reports whether the file has the content of parts then, and
// leaves it empty if not. The other file may change meanwhile, and be any.
func (w *Workspace) clone(ctx context.Context, dst, src int, parts []tree.Part) bool {
	size := sizeOfParts(parts)
	if !w.clones(size) {
		return false
	}
	if st, err := statFD(src); err != nil || st.kind != tree.KindFile || st.size != size {
		return false
	}
	err := w.reflink(dst, src)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EXDEV):
		w.unshared.Store(true)
		return false
	case err == nil && w.isOf(ctx, dst, parts):
		return true
	}
	_ = dirfd.Retry(func() error { return unix.Ftruncate(dst, 0) }) // else the copy is found to be another one
	return false
}

// clones reports whether a file of a size may be cloned.
func (w *Workspace) clones(size int64) bool { return size >= minCloned && !w.unshared.Load() }

// isOf reports whether an open file has the content of parts.
func (w *Workspace) isOf(ctx context.Context, fd int, parts []tree.Part) bool {
	shared, _ := windows.Get().(*[]byte)
	defer windows.Put(shared)
	at := int64(0)
	for _, p := range parts {
		n, err := preadFull(fd, (*shared)[:p.Size], at)
		if err != nil || tree.Sum((*shared)[:n]) != p.Hash || ctx.Err() != nil {
			return false
		}
		at += int64(n)
	}
	st, err := statFD(fd)
	return err == nil && st.size == at
}

// cloneObject makes an object of a clone of an open file.
func (w *Workspace) cloneObject(ctx context.Context, src int, parts []tree.Part) (int64, error) {
	return w.home.dir.Make(func(fd int) error {
		if !w.clone(ctx, fd, src, parts) {
			return errNoClone
		}
		return nil
	})
}

// clone makes an object of a clone of a file that begins with some content, 0 if none has all of it.
func (c *contents) clone(ctx context.Context, parts []tree.Part, beginning func(tree.Hash) ([]string, error)) int64 {
	if !c.w.clones(sizeOfParts(parts)) {
		return 0
	}
	paths, err := beginning(parts[0].Hash)
	if err != nil {
		return 0 // it is read, which says why
	}
	if at, leaves := c.windows[parts[0].Hash]; leaves && at.offset == 0 {
		paths = append([]string{c.w.treePath(at.path)}, paths...)
	}
	for _, path := range paths[:min(len(paths), maxBeginning)] {
		src, err := c.w.home.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			continue
		}
		number, err := c.w.cloneObject(ctx, src, parts)
		closeFD(src)
		if err == nil {
			return number
		}
	}
	return 0
}
