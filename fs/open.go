package fs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
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
	fd, err := openRetry(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|more)
	if err != nil {
		return nil, info, err
	}
	if err := retry(func() error { return unix.Fstat(fd, &info) }); err != nil {
		_ = unix.Close(fd)
		return nil, info, err
	}
	if kindOf(&info) != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, info, notAFile(path)
	}
	return atomicfile.NewReader(fd, path), info, nil
}

func openRetry(dir int, name string, flags int) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags, 0)
		return err
	})
	return fd, err
}

// retry repeats a system call while a signal interrupts it.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lstat and stat tell of a path itself and of the end of its links.
func lstat(path string) (st unix.Stat_t, err error) {
	return st, retry(func() error { return unix.Lstat(path, &st) })
}

func stat(path string) (st unix.Stat_t, err error) {
	return st, retry(func() error { return unix.Stat(path, &st) })
}

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
