package atomicfile

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// openUnnamed makes a file without a name in dir.
func openUnnamed(dir int, mode uint32) (int, error) {
	return dirfd.Open(dir, ".", unix.O_TMPFILE|unix.O_RDWR, mode)
}

// linkUnnamed gives a file without a name one.
func linkUnnamed(fd, dir int, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP) { // no /proc
		return unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	}
	return err
}
