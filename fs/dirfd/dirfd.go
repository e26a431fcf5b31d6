// Package dirfd makes system calls on names in open directories.
//
// A call that a signal interrupts is repeated. Descriptors are opened with O_CLOEXEC and belong to the caller. Errors
// are those of the system (unix.Errno), without the name. Every function may be called from several goroutines.
package dirfd

import (
	"cmp"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// Retry repeats a system call while a signal interrupts it.
func Retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Open opens a name in an open directory. perm is for a file that it makes.
func Open(dir int, name string, flags int, perm uint32) (fd int, err error) {
	err = Retry(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, perm)
		return err
	})
	return fd, err
}

// openWalking is OpenNoLinks a name at a time.
func openWalking(dir int, path string, flags int) (int, error) {
	at := dir
	if strings.HasPrefix(path, "/") {
		if dir != unix.AT_FDCWD {
			return -1, unix.EXDEV
		}
		root, err := Open(unix.AT_FDCWD, "/", Directory, 0)
		if err != nil {
			return -1, err
		}
		at = root
	}
	for rest, more := strings.Trim(path, "/"), true; more; {
		var name string
		how := flags
		if name, rest, more = strings.Cut(rest, "/"); more {
			how = Directory
		}
		next, err := -1, error(unix.EXDEV)
		if name != ".." {
			next, err = Open(at, cmp.Or(name, "."), how|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
		}
		if at != dir {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// Stat describes what is open.
func Stat(fd int) (st unix.Stat_t, err error) {
	return st, Retry(func() error { return unix.Fstat(fd, &st) })
}

// StatAt describes a name in an open directory. flags are AT_SYMLINK_NOFOLLOW or 0.
func StatAt(dir int, name string, flags int) (st unix.Stat_t, err error) {
	return st, Retry(func() error { return unix.Fstatat(dir, name, &st, flags) })
}

// Readlink returns the target of a link in an open directory.
func Readlink(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		var n int
		err := Retry(func() (err error) {
			n, err = unix.Readlinkat(dir, name, buf)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// Rename gives a name in an open directory another one, in the same or another open directory. It replaces what has
// the new name.
func Rename(oldDir int, old string, newDir int, name string) error {
	return Retry(func() error { return unix.Renameat(oldDir, old, newDir, name) })
}

// RenameNew is Rename to a name that nothing has, else the error is unix.EEXIST. Where the system cannot look and
// rename at once, a file is linked, and what cannot be linked is renamed after a look at the new name.
func RenameNew(oldDir int, old string, newDir int, name string) error {
	err := Retry(func() error { return renameExclusive(oldDir, old, newDir, name) })
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EINVAL) {
		return renameInSteps(oldDir, old, newDir, name)
	}
	return err
}

// renameInSteps is RenameNew without a call of the system's.
func renameInSteps(oldDir int, old string, newDir int, name string) error {
	if unix.Linkat(oldDir, old, newDir, name, 0) == nil {
		err := unix.Unlinkat(oldDir, old, 0)
		if err != nil {
			_ = unix.Unlinkat(newDir, name, 0)
		}
		return err
	}
	_, err := StatAt(newDir, name, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil:
		return unix.EEXIST
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return Rename(oldDir, old, newDir, name)
}
