package fs

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

func (s *Service) copy(ctx context.Context, p *protocol.CopyParams) (*protocol.Empty, error) {
	from, err := fileuri.Path(p.SourcePath)
	if err != nil {
		return nil, err
	}
	to, err := fileuri.Path(p.DestinationPath)
	if err != nil {
		return nil, err
	}
	st, err := lstat(from)
	if err != nil {
		return nil, err
	}
	switch kindOf(&st) {
	case unix.S_IFREG:
		err = s.copyFile(ctx, from, to)
	case unix.S_IFLNK:
		err = copyLink(from, to)
	case unix.S_IFDIR:
		switch inside, insideErr := isInside(from, to); {
		case !p.Recursive:
			err = refused("%s requires recursive: true when sourcePath is a directory", protocol.MethodFsCopy)
		case insideErr != nil:
			err = insideErr
		case inside:
			err = refused("%s cannot copy a directory to itself or one of its descendants", protocol.MethodFsCopy)
		default:
			err = s.copyTree(ctx, from, to, true)
		}
	default:
		err = refused("%s only supports regular files, directories, and symlinks", protocol.MethodFsCopy)
	}
	return &protocol.Empty{}, err
}

// isInside reports whether to, which need not exist, is dir or below it, whatever
// links lead there.
func isInside(dir, to string) (bool, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	return slashpath.Within(lineage.Real(to), real), nil
}

// copyFile makes to a file with the content and the mode of from, through links of
// to. A file that is both stays as it is.
func (s *Service) copyFile(ctx context.Context, from, to string) error {
	source, info, err := openLeaf(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := atomicfile.Resolve(to, true)
	if err != nil {
		return err
	}
	defer target.Close()
	unlock, err := s.host.locks.lock(ctx, target.Key())
	if err != nil {
		return err
	}
	defer unlock()
	return copyInto(ctx, source, modeOf(&info)&0o7777, target, to)
}

func copyInto(ctx context.Context, source *os.File, mode uint32, target *atomicfile.Target, to string) error {
	current, err := target.Inspect()
	if err != nil {
		return err
	}
	defer current.Close()
	switch {
	case current == nil:
	case current.SameFile(source):
		return nil
	case !current.Regular():
		return notAFile(to)
	}
	stage, err := target.NewStage(current, 0o600)
	if err != nil {
		return err
	}
	defer stage.Discard()
	if err := copyContent(ctx, stage.File(), source); err != nil {
		return err
	}
	return stage.Commit(atomicfile.Options{Mode: &mode})
}

// copyStep is what is copied before looking whether anybody still wants it.
const copyStep = 64 << 20

// copyContent copies all of from, if ctx lasts so long.
func copyContent(ctx context.Context, to, from *os.File) error {
	for ctx.Err() == nil {
		switch _, err := io.CopyN(to, from, copyStep); { // of two files: the system does it
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return context.Cause(ctx)
}

// copyLink makes to a link with the same text.
func copyLink(from, to string) error {
	text, err := dirfd.Readlink(unix.AT_FDCWD, from)
	if err != nil {
		return err
	}
	return dirfd.Retry(func() error { return unix.Symlink(text, to) })
}

// copyTree copies the directory from onto to, which it makes if need be, parents
// included at the top. A directory that it makes has the mode of its model. What is
// neither file, directory nor link is passed over, and so is what vanishes meanwhile.
func (s *Service) copyTree(ctx context.Context, from, to string, top bool) error {
	made, model, err := makeLike(from, to, top)
	if err != nil {
		return err
	}
	listed := &listing{ctx: ctx}
	defer listed.release()
	d, entries, err := listDir(from, listed)
	if err != nil {
		return err
	}
	defer d.close()
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		kind, err := d.kindOf(e, false)
		if err == nil {
			source, dest := slashpath.Join(from, e.name), slashpath.Join(to, e.name)
			switch kind {
			case unix.S_IFREG:
				err = s.copyFile(ctx, source, dest)
			case unix.S_IFLNK:
				err = copyLink(source, dest)
			case unix.S_IFDIR:
				err = s.copyTree(ctx, source, dest, false)
			}
		}
		if err != nil && !hasVanished(err, slashpath.Join(from, e.name)) {
			return err
		}
	}
	if !made {
		return nil
	}
	return dirfd.Retry(func() error { return unix.Chmod(to, model) }) // last: it may forbid what was done here
}

func hasVanished(err error, path string) bool {
	if !errors.Is(err, unix.ENOENT) {
		return false
	}
	_, err = lstat(path)
	return errors.Is(err, unix.ENOENT)
}

// makeLike makes the directory to, open to its owner, and returns the mode of from.
func makeLike(from, to string, parents bool) (made bool, mode uint32, err error) {
	st, err := stat(from)
	if err != nil {
		return false, 0, err
	}
	mode = modeOf(&st) & 0o7777
	existing, err := stat(to)
	if err == nil {
		if kindOf(&existing) != unix.S_IFDIR {
			return false, 0, unix.EEXIST
		}
		return false, mode, nil
	}
	if parents {
		err = makeAll(to, 0o700)
	} else {
		err = mkdir(to, 0o700)
	}
	return err == nil, mode, err
}
