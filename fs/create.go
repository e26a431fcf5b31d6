package fs

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// newDirectoryMode is that of directories that are created, less the umask.
const newDirectoryMode = 0o777

func (s *Service) createDirectory(_ context.Context, p *protocol.CreateDirectoryParams) (*protocol.Empty, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	recursive := isTrue(p.Recursive)
	switch {
	case isTrue(p.FollowSymlinks) && recursive:
		err = makeAll(path, newDirectoryMode)
	case isTrue(p.FollowSymlinks):
		err = mkdir(path, newDirectoryMode)
	case recursive:
		err = makeAllNoLinks(path)
	default:
		err = makeNoLinks(path)
	}
	return &protocol.Empty{}, err
}

func mkdir(path string, mode uint32) error {
	return dirfd.Retry(func() error { return unix.Mkdir(path, mode) })
}

// makeAll makes a directory and those it is in. What exists must be a directory or a
// link to one, else the error is EEXIST for it and ENOTDIR for what it is in.
func makeAll(path string, mode uint32) error {
	err := mkdir(path, mode)
	switch {
	case errors.Is(err, unix.EEXIST):
		if st, statErr := stat(path); statErr == nil && kindOf(&st) == unix.S_IFDIR {
			return nil
		}
		return err
	case errors.Is(err, unix.ENOENT) && path != "/":
		if err := makeAll(filepath.Dir(path), newDirectoryMode); err != nil {
			return err
		}
		if err := mkdir(path, mode); !errors.Is(err, unix.EEXIST) {
			return err
		}
		return makeAll(path, mode) // somebody else made it meanwhile
	}
	return err
}

func makeNoLinks(path string) error {
	dir, base, err := atomicfile.OpenParent(path)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	return dirfd.Retry(func() error { return unix.Mkdirat(dir, base, newDirectoryMode) })
}

// makeAllNoLinks is makeAll going through no link: one anywhere is ENOTDIR.
func makeAllNoLinks(path string) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	at, err := dirfd.Open(unix.AT_FDCWD, "/", flags, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		next, err := dirfd.Open(at, name, flags, 0)
		if errors.Is(err, unix.ENOENT) {
			err = dirfd.Retry(func() error { return unix.Mkdirat(at, name, newDirectoryMode) })
			if err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
			next, err = dirfd.Open(at, name, flags, 0)
		}
		switch {
		case errors.Is(err, unix.ELOOP):
			return unix.ENOTDIR
		case err != nil:
			return err
		}
		_ = unix.Close(at)
		at = next
	}
	return nil
}
