package dirfd

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Path opens what is only named, not read or written. Directory is Path for a directory.
const (
	Path      = unix.O_PATH
	Directory = unix.O_PATH | unix.O_DIRECTORY
)

var noOpenat2 atomic.Bool // the kernel is too old

// OpenNoLinks opens what a path leads to without a link: below an open directory, or, with AT_FDCWD, an absolute path.
// A link on the way is ELOOP or ENOTDIR. So is one at the end, unless flags have Path: then it is opened itself.
// A path that leaves the directory, an absolute one too, is EXDEV.
func OpenNoLinks(dir int, path string, flags int) (fd int, err error) {
	if noOpenat2.Load() {
		return openWalking(dir, path, flags)
	}
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&Path == 0 { // it is refused beside it
		how.Flags |= unix.O_NOCTTY
	}
	if dir != unix.AT_FDCWD {
		how.Resolve |= unix.RESOLVE_BENEATH
	}
	err = Retry(func() error {
		fd, err = unix.Openat2(dir, path, &how)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOSYS):
		noOpenat2.Store(true)
		return openWalking(dir, path, flags)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EAGAIN): // a filter does not know it, or something was renamed
		return openWalking(dir, path, flags)
	}
	return fd, err
}

func renameExclusive(oldDir int, old string, newDir int, name string) error {
	return unix.Renameat2(oldDir, old, newDir, name, unix.RENAME_NOREPLACE)
}
