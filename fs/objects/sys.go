package objects

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// openAt follows no link.
func openAt(dir int, name string, flags int, perm uint32) (fd int, err error) {
	return dirfd.Open(dir, name, flags|unix.O_NOFOLLOW|unix.O_NOCTTY, perm)
}

// closeFile closes fd, which is closed too when a signal interrupts that.
func closeFile(fd int) error {
	if err := unix.Close(fd); !errors.Is(err, unix.EINTR) {
		return err
	}
	return nil
}
