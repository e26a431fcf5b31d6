package atomicfile

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
)

// Key identifies a directory entry, whatever path led to it.
type Key struct {
	Dev, Ino uint64 // of the directory
	Name     string
}

// Target is a directory entry to be written. It holds its directory open.
type Target struct {
	dir  int
	base string
	key  Key
}

// Resolve finds the entry that writing to p writes: with follow, the one at the end
// of its links, which need not exist; without, p itself, and a link on the way to it
// is ENOTDIR. The directory must exist. Errors are system errors.
func Resolve(p string, follow bool) (*Target, error) {
	if !follow {
		dir, base, err := OpenParent(p)
		if err != nil {
			return nil, err
		}
		return newTarget(dir, base)
	}
	at := unix.AT_FDCWD
	for range slashpath.MaxLinks {
		parent, base := split(p)
		dir, err := dirfd.Open(at, parent, dirfd.Directory, 0)
		if at != unix.AT_FDCWD {
			_ = unix.Close(at)
		}
		if err != nil {
			return nil, err
		}
		link, err := dirfd.Readlink(dir, base)
		switch {
		case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT):
			return newTarget(dir, base)
		case err != nil:
			_ = unix.Close(dir)
			return nil, err
		}
		at, p = dir, link
	}
	if at != unix.AT_FDCWD {
		_ = unix.Close(at)
	}
	return nil, unix.ELOOP
}

func newTarget(dir int, base string) (*Target, error) {
	st, err := dirfd.Stat(dir)
	if err != nil {
		_ = unix.Close(dir)
		return nil, err
	}
	return &Target{dir: dir, base: base, key: Key{Dev: uint64(st.Dev), Ino: st.Ino, Name: base}}, nil
}

// split cuts p into a directory, "." if there is none, and a last component. It does
// not clean: ".." after a link is not what it looks like.
func split(p string) (dir, base string) {
	p = strings.TrimRight(p, "/")
	i := strings.LastIndexByte(p, '/')
	dir, base = p[:i+1], p[i+1:]
	if dir == "" {
		dir = "."
	}
	if base == "" { // the root
		return "/", "."
	}
	return dir, base
}

// Key identifies the entry.
func (t *Target) Key() Key { return t.key }

// Close gives up the directory.
func (t *Target) Close() { _ = unix.Close(t.dir) }

// Info is what a Target has now.
type Info struct {
	fd   int // open for writing, unless busy; -1 otherwise
	stat unix.Stat_t
}

// Regular reports whether it is a regular file.
func (i *Info) Regular() bool { return i.stat.Mode&unix.S_IFMT == unix.S_IFREG }

// Device reports whether it is a device.
func (i *Info) Device() bool {
	return i.stat.Mode&unix.S_IFMT == unix.S_IFCHR || i.stat.Mode&unix.S_IFMT == unix.S_IFBLK
}

// SameFile reports whether it is the file that f is.
func (i *Info) SameFile(f *os.File) bool {
	st, err := dirfd.Stat(int(f.Fd()))
	return err == nil && uint64(st.Dev) == uint64(i.stat.Dev) && st.Ino == i.stat.Ino
}

// Close ends the use of the Info.
func (i *Info) Close() {
	if i != nil && i.fd >= 0 {
		_ = unix.Close(i.fd)
	}
}

// Inspect opens what is there for writing, without touching it. It returns nil, nil
// when there is nothing. It never waits for the other end of a pipe, and fails as an
// ordinary open for writing would: EISDIR, EACCES, ENXIO.
func (t *Target) Inspect() (*Info, error) {
	if t.base == "." || t.base == ".." {
		return nil, unix.EISDIR
	}
	info := &Info{}
	var err error
	info.fd, err = dirfd.Open(t.dir, t.base, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.ETXTBSY): // it runs: it can be replaced, not written
		info.fd = -1
		if info.stat, err = dirfd.StatAt(t.dir, t.base, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, err
		}
		return info, nil
	case err != nil:
		return nil, err
	}
	if info.stat, err = dirfd.Stat(info.fd); err != nil {
		info.Close()
		return nil, err
	}
	return info, nil
}

// Open opens what is there for reading, without waiting for the other end of a pipe.
func (t *Target) Open() (*os.File, error) {
	fd, err := dirfd.Open(t.dir, t.base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return NewReader(fd, t.base), nil
}

// OpenParent opens the directory that holds p, refusing to go through links with
// ENOTDIR, and returns it with p's last component.
func OpenParent(p string) (dir int, base string, err error) {
	parent, base := split(path.Clean(p))
	dir, err = dirfd.OpenNoLinks(unix.AT_FDCWD, parent, dirfd.Directory)
	if errors.Is(err, unix.ELOOP) {
		err = unix.ENOTDIR
	}
	return dir, base, err
}

// Entry finds the entry that p itself is, following links only on the way to it.
func Entry(p string) (*Target, error) {
	parent, base := split(p)
	dir, err := dirfd.Open(unix.AT_FDCWD, parent, dirfd.Directory, 0)
	if err != nil {
		return nil, err
	}
	return newTarget(dir, base)
}
