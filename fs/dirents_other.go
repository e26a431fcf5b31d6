//go:build !linux

package fs

import (
	"os"

	"golang.org/x/sys/unix"
)

// list lists the directory, without "." and "..", unsorted.
func (d *directory) list() ([]dirent, error) {
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	names, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]dirent, len(names))
	for i, e := range names {
		entries[i].name = e.Name()
		switch t := e.Type(); {
		case t.IsRegular():
			entries[i].kind = unix.S_IFREG
		case t.IsDir():
			entries[i].kind = unix.S_IFDIR
		case t&os.ModeSymlink != 0:
			entries[i].kind = unix.S_IFLNK
		}
	}
	return entries, nil
}
