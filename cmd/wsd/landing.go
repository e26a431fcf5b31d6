package main

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// A landing is where downloads are written to: the destination that the user has named, if
// it is a directory, else the directory that the destination is in. Below it, paths are
// relative, separated by slashes, and opened one name at a time from the directory above,
// never through a link, so that a link that the server had made, or that comes meanwhile,
// leads nowhere. A link in the place of a file, link or directory is replaced.
type landing struct {
	root *os.Root
	path string // of root, for people
	real string // the same without links
	base string // of the destination in root, "" if it is root itself
	// device is the destination if it is neither a file nor a directory, "" otherwise.
	device string
}

// openLanding opens the destination that the user has named, which may be a link. into says
// that it is a directory; with above the directories above it are made.
func openLanding(dest string, into, above bool) (*landing, error) {
	l := new(landing)
	if !into {
		// A link to a file stays, as with cp: what it leads to is replaced.
		if resolved, err := filepath.EvalSymlinks(dest); err == nil {
			dest = resolved
		}
		if info, err := os.Stat(dest); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			l.device = dest
		}
		dest, l.base = filepath.Dir(dest), filepath.Base(dest)
		if above {
			if err := os.MkdirAll(dest, 0o777); err != nil {
				return nil, err
			}
		}
	}
	var err error
	l.path = dest
	if l.root, err = os.OpenRoot(dest); err != nil {
		return nil, err
	}
	if l.real, err = filepath.EvalSymlinks(dest); err == nil {
		l.real, err = filepath.Abs(l.real)
	}
	if err != nil {
		return nil, errors.Join(err, l.root.Close())
	}
	return l, nil
}

// name is a path as the user knows it.
func (l *landing) name(name string) string { return filepath.Join(l.path, name) }

func (l *landing) close() { _ = l.root.Close() } // a directory, to which nothing was written

func notDirectory(op, name string) error {
	return &iofs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
}

// open opens a directory; the caller closes it.
func (l *landing) open(name string) (*os.Root, error) {
	dir, err := l.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for base := range strings.SplitSeq(path.Clean(name), "/") {
		if base == "." {
			continue
		}
		next, err := openBelow(dir, base)
		_ = dir.Close() // nothing was written to it
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// openBelow opens the directory with a name in dir. OpenRoot follows links within dir: if
// one was there, what it has opened is not the directory that was seen before.
func openBelow(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, notDirectory("open", name)
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := sub.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = notDirectory("open", name)
	}
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}

// in runs fn with the directory that a path is in, and the last name of the path.
func (l *landing) in(name string, fn func(dir *os.Root, base string) error) error {
	dir, err := l.open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return fn(dir, path.Base(name))
}

// mkdir makes a directory, or keeps the one that is there, writable for us. The directory
// above it must be there.
func (l *landing) mkdir(name string) error {
	if path.Clean(name) == "." {
		return openUp(l.root, ".")
	}
	return l.in(name, func(dir *os.Root, base string) error {
		info, err := dir.Lstat(base)
		if err == nil && info.Mode()&iofs.ModeSymlink != 0 {
			if err = dir.Remove(base); err == nil {
				err = iofs.ErrNotExist
			}
		}
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			if err := dir.Mkdir(base, 0o777); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return notDirectory("mkdir", name)
		}
		return openUp(dir, base)
	})
}

// openUp gives us all rights to a directory of ours.
func openUp(dir *os.Root, base string) error {
	info, err := dir.Lstat(base)
	if err != nil || info.Mode().Perm()&0o700 == 0o700 {
		return err
	}
	if !info.IsDir() {
		return notDirectory("chmod", base)
	}
	// It may be one that cannot be opened. A link that has come just now leads to nothing
	// outside of dir.
	return dir.Chmod(base, info.Mode().Perm()|0o700)
}

// chmod sets the mode of a directory.
func (l *landing) chmod(name string, mode iofs.FileMode) error {
	dir, err := l.open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Close())
}

// write puts a file in place whole, once all of it has arrived. Without a mode it is that
// of the file that was there.
func (l *landing) write(name string, from io.Reader, mode iofs.FileMode) error {
	if l.device != "" {
		return writeThrough(from, l.device)
	}
	return l.in(name, func(dir *os.Root, base string) error {
		if mode.Perm() == 0 {
			mode = 0o644
			if info, err := dir.Lstat(base); err == nil && info.Mode().IsRegular() {
				mode = info.Mode().Perm()
			}
		}
		temporary := temporaryName()
		out, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, struct{ io.Reader }{from})
		if err == nil {
			err = out.Chmod(mode)
		}
		err = errors.Join(err, out.Close())
		if err == nil {
			err = dir.Rename(temporary, base)
		}
		if err != nil {
			return errors.Join(err, dir.Remove(temporary))
		}
		return nil
	})
}

// writeThrough writes to a device, which stays.
func writeThrough(r io.Reader, name string) error {
	out, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	return errors.Join(err, out.Close())
}

// symlink makes a link, in the place of a file or link that is there.
func (l *landing) symlink(target, name string) error {
	return l.in(name, func(dir *os.Root, base string) error {
		err := dir.Symlink(target, base)
		if !errors.Is(err, iofs.ErrExist) {
			return err
		}
		temporary := temporaryName()
		if err := dir.Symlink(target, temporary); err != nil {
			return err
		}
		if err := dir.Rename(temporary, base); err != nil {
			return errors.Join(err, dir.Remove(temporary))
		}
		return nil
	})
}
