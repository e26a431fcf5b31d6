package fs

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

func (s *Service) remove(_ context.Context, p *protocol.RemoveParams) (*protocol.Empty, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	recursive := isTrue(p.Recursive)
	switch {
	case path == "/":
		return nil, refused("%s does not remove the root directory", protocol.MethodFsRemove)
	case !isTrue(p.FollowSymlinks) && recursive:
		return nil, protocol.Errorf(protocol.CodeInternal, "recursive no-follow removal is unsupported")
	case !isTrue(p.FollowSymlinks):
		err = removeNoLinks(path)
	case recursive:
		err = removeAll(path)
	default:
		err = removeAt(unix.AT_FDCWD, path, false)
	}
	if isTrue(p.Force) && errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return &protocol.Empty{}, err
}

// removeAll removes path and, if it is a directory, all in it. A link is removed, not
// followed. It is ENOENT for what does not exist.
func removeAll(path string) error {
	st, err := lstat(path)
	if err != nil {
		return err
	}
	if kindOf(&st) != unix.S_IFDIR {
		return dirfd.Retry(func() error { return unix.Unlink(path) })
	}
	return os.RemoveAll(path)
}

// removeAt removes a file, a link or an empty directory.
func removeAt(dir int, name string, refuseLink bool) error {
	st, err := dirfd.StatAt(dir, name, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return err
	}
	flags := 0
	switch {
	case kindOf(&st) == unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR
	case kindOf(&st) == unix.S_IFLNK && refuseLink:
		return errLink
	}
	return dirfd.Retry(func() error { return unix.Unlinkat(dir, name, flags) })
}

// removeNoLinks is removeAt for a path that must lead through no link.
func removeNoLinks(path string) error {
	dir, base, err := atomicfile.OpenParent(path)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	return removeAt(dir, base, true)
}
