package atomicfile

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// directoryFlags open a directory to work in; reading it is not asked for.
const directoryFlags = unix.O_PATH | unix.O_DIRECTORY

// openDirectoryNoLinks opens the absolute path p; a link in it is ENOTDIR.
func openDirectoryNoLinks(p string) (fd int, err error) {
	how := &unix.OpenHow{Flags: directoryFlags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	err = again(func() error {
		fd, err = unix.Openat2(unix.AT_FDCWD, p, how)
		return err
	})
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ELOOP):
		return -1, unix.ENOTDIR
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM): // an old kernel, or a filter that does not know it
		return walkNoLinks(p)
	}
	return -1, err
}

// openUnnamed makes a file without a name in dir.
func openUnnamed(dir int, mode uint32) (int, error) {
	return openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR, mode)
}

// linkUnnamed gives a file without a name one.
func linkUnnamed(fd, dir int, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP) { // no /proc
		return unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	}
	return err
}

// renameExclusive renames within dir unless to exists (EEXIST).
func renameExclusive(dir int, from, to string) error {
	err := again(func() error { return unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkExclusive(dir, from, to)
	}
	return err
}
