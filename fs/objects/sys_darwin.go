package objects

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew renames to a name that nothing has, else the error is unix.EEXIST.
func renameNew(oldDir int, old string, newDir int, name string) error {
	err := retry(func() error { return unix.RenameatxNp(oldDir, old, newDir, name, unix.RENAME_EXCL) })
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EINVAL) {
		return renameIfFree(oldDir, old, newDir, name)
	}
	return err
}

// syncAll is not for one file system here, and does not wait.
func syncAll(int) error { return unix.ENOTSUP }
