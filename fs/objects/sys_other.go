//go:build !linux && !darwin

package objects

import "golang.org/x/sys/unix"

// renameNew renames to a name that nothing has, else the error is unix.EEXIST.
func renameNew(oldDir int, old string, newDir int, name string) error {
	return renameIfFree(oldDir, old, newDir, name)
}

// syncAll is not for one file system here, and does not wait.
func syncAll(int) error { return unix.ENOSYS }
