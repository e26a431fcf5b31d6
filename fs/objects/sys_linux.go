package objects

import (
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// syncAll brings all that was written to the file system of an open directory to the disk.
func syncAll(fd int) error { return dirfd.Retry(func() error { return unix.Syncfs(fd) }) }
