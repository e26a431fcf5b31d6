//go:build !linux

package fs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// list lists the directory, without "." and "..", unsorted. l is charged for it.
func (d *directory) list(l *listing) ([]dirent, error) {
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	var entries []dirent
	for {
		names, err := f.ReadDir(1024)
		for _, e := range names {
			if err := l.add(len(e.Name())); err != nil {
				return nil, err
			}
			entries = append(entries, dirent{name: e.Name(), kind: listedKind(e.Type())})
		}
		switch {
		case errors.Is(err, io.EOF):
			return entries, nil
		case err != nil:
			return nil, err
		}
	}
}

// listedKind is a listed mode as the system has it, 0 for what is neither a file, a
// directory nor a link.
func listedKind(mode os.FileMode) uint32 {
	switch {
	case mode.IsRegular():
		return unix.S_IFREG
	case mode.IsDir():
		return unix.S_IFDIR
	case mode&os.ModeSymlink != 0:
		return unix.S_IFLNK
	}
	return 0
}
