package fs

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

func (s *Service) readFile(ctx context.Context, p *protocol.ReadFileParams) (*protocol.ReadFileResult, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	f, info, err := openRead(path, isTrue(p.FollowSymlinks))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.readOpen(ctx, p, f, info)
}

// readFileHere is readFile for a sandbox under which the file may be opened by this
// process.
func (s *Service) readFileHere(ctx context.Context, p *protocol.ReadFileParams) (*protocol.ReadFileResult, bool, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil || !isTrue(p.FollowSymlinks) {
		return nil, false, nil
	}
	fd, ok := s.sandbox.Open(p.Sandbox, path)
	if !ok {
		return nil, false, nil
	}
	f := atomicfile.NewReader(fd, path)
	defer f.Close()
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return nil, true, err
	}
	result, err := s.readOpen(ctx, p, f, info)
	return result, true, err
}

// readOpen answers with the content of f.
func (s *Service) readOpen(ctx context.Context, p *protocol.ReadFileParams, f *os.File, info unix.Stat_t) (*protocol.ReadFileResult, error) {
	if s.confined && info.Size > maxConfinedRead {
		return nil, errReadInBlocks
	}
	data, err := readAll(ctx, f, info.Size)
	if err != nil {
		return nil, err
	}
	if s.confined && len(data) > maxConfinedRead {
		return nil, errReadInBlocks
	}
	result := &protocol.ReadFileResult{DataBase64: data}
	if isSet(p.IncludeHash) {
		result.Hash = hashOf(data)
	}
	return result, nil
}

var errTooLarge = refused("file is too large to read: limit is %d bytes", protocol.MaxReadFileBytes)

// readAll reads f to its end. size is a guess: files of the kernel say 0, and others
// grow.
func readAll(ctx context.Context, f *os.File, size int64) ([]byte, error) {
	if size > protocol.MaxReadFileBytes {
		return nil, errTooLarge
	}
	var held content
	if err := held.grow(ctx, size); err != nil {
		return nil, err
	}
	data := newContent(ctx, int(max(size+1, 4096))) // one more, to meet the end without growing
	for {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) > protocol.MaxReadFileBytes:
			return nil, errTooLarge
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		if len(data) == cap(data) {
			size := min(2*cap(data), protocol.MaxReadFileBytes+4096) // some files are read in whole words only
			if err := held.grow(ctx, int64(size)); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
	}
}
