package objects

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew renames to a name that nothing has, else the error is unix.EEXIST.
func renameNew(oldDir int, old string, newDir int, name string) error {
	err := retry(func() error { return unix.Renameat2(oldDir, old, newDir, name, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return renameIfFree(oldDir, old, newDir, name)
	}
	return err
}

// syncAll brings all that was written to the file system of an open directory to the disk.
func syncAll(fd int) error { return retry(func() error { return unix.Syncfs(fd) }) }
