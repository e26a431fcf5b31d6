package fs

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/dirfd"
)

// openRead opens a regular file for reading. It never waits for the other end of a
// pipe. Without follow a link at the end is ELOOP, one on the way ENOTDIR.
func openRead(path string, follow bool) (f *os.File, info unix.Stat_t, err error) {
	if follow {
		return openRegular(unix.AT_FDCWD, path, 0, path)
	}
	dir, base, err := atomicfile.OpenParent(path)
	if err != nil {
		return nil, info, err
	}
	defer func() { _ = unix.Close(dir) }()
	return openRegular(dir, base, unix.O_NOFOLLOW, path)
}

// openLeaf is openRead for a path whose last component must be no link.
func openLeaf(path string) (f *os.File, info unix.Stat_t, err error) {
	return openRegular(unix.AT_FDCWD, path, unix.O_NOFOLLOW, path)
}

func openRegular(dir int, name string, more int, path string) (f *os.File, info unix.Stat_t, err error) {
	fd, err := dirfd.Open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|more, 0)
	if err != nil {
		return nil, info, err
	}
	if info, err = dirfd.Stat(fd); err != nil {
		_ = unix.Close(fd)
		return nil, info, err
	}
	if kindOf(&info) != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, info, notAFile(path)
	}
	return atomicfile.NewReader(fd, path), info, nil
}

// lstat and stat tell of a path itself and of the end of its links.
func lstat(path string) (unix.Stat_t, error) {
	return dirfd.StatAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
}

func stat(path string) (unix.Stat_t, error) { return dirfd.StatAt(unix.AT_FDCWD, path, 0) }

// modeOf is a file's mode, whatever type the system has for it.
func modeOf(st *unix.Stat_t) uint32 {
	return uint32(st.Mode) //nolint:unconvert // it is 16 bits wide elsewhere
}

// kindOf is the type of file that a mode tells.
func kindOf(st *unix.Stat_t) uint32 { return modeOf(st) & unix.S_IFMT }

// fileID is a file's identity while it exists.
type fileID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) fileID {
	return fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // it is 32 bits wide elsewhere
}
