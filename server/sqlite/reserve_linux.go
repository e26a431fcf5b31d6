package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives an empty file room on the disk, without writing it.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		if err != unix.EINTR { //nolint:errorlint // the system call's own
			return err
		}
	}
}
