package disk

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Directories of ours whose modes keep us from changing what is in them are opened up for
// as long as that takes. The journal has their paths before that, so that the modes are put
// back by the next Open if the process dies meanwhile.

// forbidden reports whether err says that we have no right to do something.
func forbidden(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// inDir runs fn with an open directory. When we have no right to do what fn does, the
// directory is opened up, and fn runs again.
func (b *bringer) inDir(path string, fn func(fd int) error) error {
	fd, err := b.walk.open(path)
	if err == nil {
		err = fn(fd)
	}
	if !b.openedUp(path, err) {
		return err
	}
	if fd, err = b.walk.open(path); err != nil {
		return err
	}
	return fn(fd)
}

// openedUp opens a directory up if that may be what an error was about, and reports
// whether to try again.
func (b *bringer) openedUp(path string, err error) bool {
	return forbidden(err) && b.openUp(path) == nil
}

// openUp lets us into a directory whose mode keeps us out. finishDirs closes it again.
func (b *bringer) openUp(path string) error {
	was, err := b.unlock(path)
	if err != nil {
		return err
	}
	it, err := b.w.lookup(b.ctx, path)
	if err != nil || it.kind != tree.KindDir {
		it = &item{path: path, kind: tree.KindDir, mode: uint32(was.mode), mtime: was.mtime}
	}
	b.dirs = append(b.dirs, it)
	b.shut = append(b.shut, path)
	return nil
}

// isShut reports whether a path is in a directory that keeps us out, where content cannot be read
// any more once it is closed again.
func (b *bringer) isShut(path string) bool {
	return slices.ContainsFunc(b.shut, func(dir string) bool { return slashpath.Within(path, dir) })
}

// unlock gives us, the owner, all rights to a directory, and returns how it was. If we have
// them already, or it is somebody else's, it fails.
func (b *bringer) unlock(path string) (was stat, err error) {
	open := func(st stat, chmod func(mode uint32) error) error {
		if was = st; st.kind != tree.KindDir || st.mode&0o700 == 0o700 {
			return pathError("open", path, unix.EACCES)
		}
		if err := b.w.remember(b.ctx, path); err != nil {
			return err
		}
		return pathError("chmod", path, chmod(uint32(st.mode)|0o700))
	}
	if path == "" {
		st, err := statFD(b.root)
		if err == nil {
			err = open(st, func(mode uint32) error { return unix.Fchmod(b.root, mode) })
		}
		return was, err
	}
	dir, name := slashpath.Split(path)
	err = b.inDir(dir, func(up int) error {
		st, err := statOthers(up, name)
		if err != nil {
			return err
		}
		// Should a link be there by now, the mode of what it leads to is not ours to change.
		return open(st, func(mode uint32) error { return chmodAt(up, name, mode) })
	})
	return was, err
}

// remember puts a path into the journal.
func (w *Workspace) remember(ctx context.Context, path string) error {
	w.pending = true
	_, err := w.cfg.Tree.Update(context.WithoutCancel(ctx), func(e *tree.Edit) error {
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		j := &journalWriter{w: w, rows: rows}
		if err := j.add(path, false); err != nil {
			return err
		}
		return j.flush()
	})
	return err
}
