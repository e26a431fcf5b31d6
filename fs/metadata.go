package fs

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

var errLink = refused("path contains a symbolic link")

func (s *Service) getMetadata(ctx context.Context, p *protocol.GetMetadataParams) (*protocol.Metadata, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	var m *protocol.Metadata
	follow := isTrue(p.FollowSymlinks)
	if follow {
		m, err = metadataAt(unix.AT_FDCWD, path)
	} else {
		m, err = metadataNoLinks(path)
	}
	if err != nil {
		return nil, err
	}
	if isSet(p.IncludeHash) && m.IsFile {
		f, _, err := openRead(path, follow)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if m.Hash, err = hashFrom(ctx, f); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// metadataAt describes name in dir and what it leads to. A dangling link is ENOENT.
func metadataAt(dir int, name string) (*protocol.Metadata, error) {
	m, kind, err := statMetadata(dir, name, false)
	if err != nil || kind != unix.S_IFLNK {
		return m, err
	}
	if m, _, err = statMetadata(dir, name, true); err != nil {
		return nil, err
	}
	m.IsSymlink = true
	return m, nil
}

// metadataNoLinks is metadataAt for a path that must lead through no link.
func metadataNoLinks(path string) (*protocol.Metadata, error) {
	if path == "/" {
		return metadataAt(unix.AT_FDCWD, path)
	}
	dir, base, err := atomicfile.OpenParent(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }()
	m, kind, err := statMetadata(dir, base, false)
	if err == nil && kind == unix.S_IFLNK {
		return nil, errLink
	}
	return m, err
}

func newMetadata(mode uint32, size uint64, createdMs, modifiedMs int64) *protocol.Metadata {
	return &protocol.Metadata{
		IsDirectory:  mode&unix.S_IFMT == unix.S_IFDIR,
		IsFile:       mode&unix.S_IFMT == unix.S_IFREG,
		IsSymlink:    mode&unix.S_IFMT == unix.S_IFLNK,
		Size:         size,
		CreatedAtMs:  createdMs,
		ModifiedAtMs: modifiedMs,
		Mode:         mode & 0o7777,
	}
}

// milliseconds of a time since 1970; the wire has no other unit.
func milliseconds(sec, nsec int64) int64 { return sec*1000 + nsec/1_000_000 }

// fstatat metadata, where the system does not tell the time of birth.
func oldMetadata(dir int, name string, flags int) (*protocol.Metadata, uint32, error) {
	st, err := dirfd.StatAt(dir, name, flags)
	if err != nil {
		return nil, 0, err
	}
	sec, nsec := st.Mtim.Unix()
	return newMetadata(modeOf(&st), uint64(st.Size), 0, milliseconds(sec, nsec)), kindOf(&st), nil
}

// isGone reports whether err says that there is nothing: what a directory listed may
// have been removed meanwhile, and a link may lead nowhere.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
