package sqlite

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// allocate gives an empty file room on the disk, without writing it.
func allocate(f *os.File, size int64) error {
	return dirfd.Retry(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
}
