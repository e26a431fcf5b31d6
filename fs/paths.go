package fs

import (
	"context"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

func (s *Service) canonicalize(_ context.Context, p *protocol.PathParams) (*protocol.PathResult, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	if _, err := stat(path); err != nil { // the system's own word on loops and what is missing
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	return &protocol.PathResult{Path: fileuri.Format(path)}, nil
}

func (s *Service) rename(_ context.Context, p *protocol.RenameParams) (*protocol.Empty, error) {
	from, err := fileuri.Path(p.SourcePath)
	if err != nil {
		return nil, err
	}
	to, err := fileuri.Path(p.DestinationPath)
	if err != nil {
		return nil, err
	}
	if isTrue(p.Overwrite) {
		err = dirfd.Rename(unix.AT_FDCWD, from, unix.AT_FDCWD, to)
	} else {
		err = dirfd.RenameNew(unix.AT_FDCWD, from, unix.AT_FDCWD, to)
	}
	return &protocol.Empty{}, err
}

func (s *Service) symlink(_ context.Context, p *protocol.SymlinkParams) (*protocol.Empty, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	var target string
	switch {
	case (p.Target == nil) == (p.TargetBase64 == nil):
		return nil, protocol.InvalidParams("%s takes either target or targetBase64", protocol.MethodFsSymlink)
	case p.Target != nil:
		target = *p.Target
	default:
		target = string(*p.TargetBase64)
	}
	if strings.IndexByte(target, 0) >= 0 {
		return nil, protocol.InvalidParams("the target of a link cannot contain a NUL")
	}
	return &protocol.Empty{}, dirfd.Retry(func() error { return unix.Symlink(target, path) })
}

func (s *Service) readLink(_ context.Context, p *protocol.PathParams) (*protocol.ReadLinkResult, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	target, err := dirfd.Readlink(unix.AT_FDCWD, path)
	if err != nil {
		return nil, err
	}
	result := &protocol.ReadLinkResult{Target: target}
	if !utf8.ValidString(target) {
		result.TargetBase64 = []byte(target)
	}
	return result, nil
}

func (s *Service) chmod(_ context.Context, p *protocol.ChmodParams) (*protocol.Empty, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	if err := checkMode(p.Mode); err != nil {
		return nil, err
	}
	return &protocol.Empty{}, dirfd.Retry(func() error { return unix.Chmod(path, p.Mode) })
}
