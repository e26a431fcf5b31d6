package fs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameExclusive renames unless to exists (EEXIST).
func renameExclusive(from, to string) error {
	err := retry(func() error {
		return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system or kernel does not know it
		return renameUnlessThere(from, to)
	}
	return err
}
