package objects

import (
	"errors"

	"golang.org/x/sys/unix"
)

// retry calls fn again when a signal has interrupted it.
func retry(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openAt follows no link.
func openAt(dir int, name string, flags int, perm uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NOCTTY, perm)
		return err
	})
	return fd, err
}

// closeFile closes fd, which is closed too when a signal interrupts that.
func closeFile(fd int) error {
	if err := unix.Close(fd); !errors.Is(err, unix.EINTR) {
		return err
	}
	return nil
}
