package dirfd

import "golang.org/x/sys/unix"

func renameExclusive(oldDir int, old string, newDir int, name string) error {
	return unix.RenameatxNp(oldDir, old, newDir, name, unix.RENAME_EXCL)
}
