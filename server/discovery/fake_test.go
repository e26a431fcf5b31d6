package discovery

import (
	"context"
	"errors"
	iofs "io/fs"
	"strings"
	"testing/fstest"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// memory is Files over files in memory.
type memory struct {
	fstest.MapFS
	reads     map[string]int
	sandboxes map[*protocol.Sandbox]bool // seen
	truncate  bool
	denied    string // a path whose metadata cannot be had
}

func newMemory(files map[string]string) *memory {
	m := &memory{MapFS: fstest.MapFS{}, reads: map[string]int{}, sandboxes: map[*protocol.Sandbox]bool{}}
	for name, content := range files {
		m.MapFS[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return m
}

func (m *memory) at(uri string, s *protocol.Sandbox) (string, error) {
	m.sandboxes[s] = true
	p, err := fileuri.Path(uri)
	if err != nil {
		return "", err
	}
	if p == m.denied {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "Permission denied (os error 13)")
	}
	if p == "/" {
		return ".", nil
	}
	return strings.TrimPrefix(p, "/"), nil
}

func (m *memory) GetMetadata(_ context.Context, p *protocol.GetMetadataParams) (*protocol.Metadata, error) {
	name, err := m.at(p.Path, p.Sandbox)
	if err != nil {
		return nil, err
	}
	info, err := m.Stat(name)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, protocol.Errorf(protocol.CodeNotFound, "No such file or directory (os error 2)")
	}
	if err != nil {
		return nil, err
	}
	return &protocol.Metadata{IsDirectory: info.IsDir(), IsFile: info.Mode().IsRegular(), Size: uint64(info.Size())}, nil
}

func (m *memory) ReadFile(_ context.Context, p *protocol.ReadFileParams) (*protocol.ReadFileResult, error) {
	name, err := m.at(p.Path, p.Sandbox)
	if err != nil {
		return nil, err
	}
	m.reads[name]++
	content, err := m.MapFS.ReadFile(name)
	return &protocol.ReadFileResult{DataBase64: content}, err
}

// Walk does not go breadth first; its caller sorts.
func (m *memory) Walk(_ context.Context, p *protocol.WalkParams) (*protocol.WalkResult, error) {
	root, err := m.at(p.Path, p.Sandbox)
	if err != nil {
		return nil, err
	}
	out := &protocol.WalkResult{Truncated: m.truncate}
	err = iofs.WalkDir(m.MapFS, root, func(name string, d iofs.DirEntry, err error) error {
		kind := "file"
		if d.IsDir() {
			kind = "directory"
		}
		if name != root {
			out.Entries = append(out.Entries, protocol.WalkEntry{Path: fileuri.Format("/" + name), Kind: kind})
		}
		return err
	})
	if p.Options.MaxDepth != 6 || p.Options.MaxDirectories != 2000 || p.Options.MaxEntries != 20_000 || !p.Options.FollowDirectorySymlinks || p.Options.PruneHiddenDirectories {
		err = errors.New("unexpected options")
	}
	return out, err
}
