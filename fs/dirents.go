package fs

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
)

// dirent is a name in a directory. kind is that of the name itself as the system
// listed it, 0 when it did not say.
type dirent struct {
	name string
	kind uint32
}

// directory is one that is open for reading.
type directory struct {
	fd   int
	path string
}

func openDir(path string) (*directory, error) {
	fd, err := dirfd.Open(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &directory{fd: fd, path: path}, nil
}

// openSubdir opens a directory in d that is no link.
func (d *directory) openSubdir(name string) (*directory, error) {
	fd, err := dirfd.Open(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &directory{fd: fd, path: slashpath.Join(d.path, name)}, nil
}

func (d *directory) close() { _ = unix.Close(d.fd) }

// stat describes name, with follow what it leads to.
func (d *directory) stat(name string, follow bool) (st unix.Stat_t, err error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flags = 0
	}
	return dirfd.StatAt(d.fd, name, flags)
}

// kindOf is e's kind, with follow that of what it leads to, asking the system only
// if the listing did not tell.
func (d *directory) kindOf(e dirent, follow bool) (uint32, error) {
	if e.kind != 0 && (e.kind != unix.S_IFLNK || !follow) {
		return e.kind, nil
	}
	st, err := d.stat(e.name, follow)
	return kindOf(&st), err
}

// sorted lists the directory, sorted by name, bytewise.
func (d *directory) sorted(l *listing) ([]dirent, error) {
	entries, err := d.list(l)
	slices.SortFunc(entries, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return entries, err
}

// listDir lists the directory at path, sorted.
func listDir(path string, l *listing) (*directory, []dirent, error) {
	d, err := openDir(path)
	if err != nil {
		return nil, nil, err
	}
	entries, err := d.sorted(l)
	if err != nil {
		d.close()
		return nil, nil, err
	}
	return d, entries, nil
}
