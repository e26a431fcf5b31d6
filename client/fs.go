package client

import (
	"context"
	"errors"
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/protocol"
)

// Stat describes what a path leads to, following links.
func (c *Client) Stat(ctx context.Context, name string) (*FileInfo, error) {
	return c.stat(ctx, name, false)
}

// StatHash is Stat with the hash of a regular file. It needs the capability
// fsConditionalWrites.
func (c *Client) StatHash(ctx context.Context, name string) (*FileInfo, error) {
	if err := c.need(ctx, protocol.CapFsConditional); err != nil {
		return nil, err
	}
	return c.stat(ctx, name, true)
}

func (c *Client) stat(ctx context.Context, name string, hash bool) (*FileInfo, error) {
	abs, err := c.Abs(ctx, name)
	if err != nil {
		return nil, err
	}
	meta, err := c.metadata(ctx, abs, hash)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return newFileInfo(path.Base(abs), abs, meta), nil
}

func (c *Client) metadata(ctx context.Context, name string, hash bool) (*protocol.Metadata, error) {
	uri, err := c.uri(ctx, name)
	if err != nil {
		return nil, err
	}
	params := &protocol.GetMetadataParams{Path: uri}
	if hash {
		params.IncludeHash = &hash
	}
	meta := new(protocol.Metadata)
	return meta, c.call(ctx, protocol.MethodFsGetMetadata, params, meta)
}

// Lstat describes a path itself. Of a link it tells that it is one, and no more. A
// link that leads nowhere is found only with the capability fsReadLink.
func (c *Client) Lstat(ctx context.Context, name string) (*FileInfo, error) {
	abs, err := c.Abs(ctx, name)
	if err != nil {
		return nil, err
	}
	meta, err := c.metadata(ctx, abs, false)
	switch {
	case err == nil && meta.IsSymlink:
		return newLinkInfo(path.Base(abs), abs, meta), nil
	case err == nil:
		return newFileInfo(path.Base(abs), abs, meta), nil
	}
	if _, linkErr := c.ReadLink(ctx, abs); linkErr == nil {
		return newLinkInfo(path.Base(abs), abs, &protocol.Metadata{IsSymlink: true}), nil
	}
	return nil, pathError("lstat", name, err)
}

// RealPath resolves all links of a path, which must exist.
func (c *Client) RealPath(ctx context.Context, name string) (string, error) {
	var result protocol.PathResult
	if err := c.onPath(ctx, "realpath", protocol.MethodFsCanonicalize, name, &result); err != nil {
		return "", err
	}
	return pathOf(result.Path)
}

// onPath calls a method that takes a path and nothing else.
func (c *Client) onPath(ctx context.Context, op, method, name string, result any) error {
	uri, err := c.uri(ctx, name)
	if err != nil {
		return err
	}
	return pathError(op, name, c.call(ctx, method, &protocol.PathParams{Path: uri}, result))
}

// ReadDir lists a directory, sorted by name. Links are described as links. A server
// that does not offer metadata with a listing tells only which entries are directories
// and which are files, after following links, and leaves out links that lead nowhere.
func (c *Client) ReadDir(ctx context.Context, name string) ([]*FileInfo, error) {
	abs, err := c.Abs(ctx, name)
	if err != nil {
		return nil, err
	}
	uri, err := c.uri(ctx, abs)
	if err != nil {
		return nil, err
	}
	yes := true
	var result protocol.ReadDirectoryResult
	err = c.call(ctx, protocol.MethodFsReadDirectory, &protocol.ReadDirectoryParams{Path: uri, IncludeMetadata: &yes}, &result)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	entries := make([]*FileInfo, 0, len(result.Entries))
	for i := range result.Entries {
		entry, err := entryInfo(abs, &result.Entries[i])
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b *FileInfo) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

func entryInfo(dir string, entry *protocol.DirectoryEntry) (*FileInfo, error) {
	name := entry.FileName
	if entry.Path != "" { // the name is not text
		full, err := pathOf(entry.Path)
		if err != nil {
			return nil, err
		}
		name = path.Base(full)
	}
	full := path.Join(dir, name)
	switch {
	case entry.Metadata == nil:
		return newFileInfo(name, full, &protocol.Metadata{IsDirectory: entry.IsDirectory, IsFile: entry.IsFile}), nil
	case entry.Metadata.IsSymlink:
		return newLinkInfo(name, full, entry.Metadata), nil
	}
	return newFileInfo(name, full, entry.Metadata), nil
}

// Mkdir makes a directory; its parent must exist.
func (c *Client) Mkdir(ctx context.Context, name string) error { return c.mkdir(ctx, name, false) }

// MkdirAll makes a directory and its missing parents. One that exists is no error.
func (c *Client) MkdirAll(ctx context.Context, name string) error { return c.mkdir(ctx, name, true) }

func (c *Client) mkdir(ctx context.Context, name string, all bool) error {
	uri, err := c.uri(ctx, name)
	if err != nil {
		return err
	}
	return pathError("mkdir", name, c.call(ctx, protocol.MethodFsCreateDirectory,
		&protocol.CreateDirectoryParams{Path: uri, Recursive: &all}, nil))
}

// Remove removes a file, a link or an empty directory.
func (c *Client) Remove(ctx context.Context, name string) error { return c.remove(ctx, name, false) }

// RemoveAll removes a path with all below it. One that is missing is no error. Links
// are removed, not followed.
func (c *Client) RemoveAll(ctx context.Context, name string) error { return c.remove(ctx, name, true) }

func (c *Client) remove(ctx context.Context, name string, all bool) error {
	uri, err := c.uri(ctx, name)
	if err != nil {
		return err
	}
	return pathError("remove", name, c.call(ctx, protocol.MethodFsRemove,
		&protocol.RemoveParams{Path: uri, Recursive: &all, Force: &all}, nil))
}

// Copy copies a file, a link or a directory with all below it, within the server.
func (c *Client) Copy(ctx context.Context, from, to string) error {
	source, target, err := c.uris(ctx, from, to)
	if err != nil {
		return err
	}
	return pathError("copy", from, c.call(ctx, protocol.MethodFsCopy,
		&protocol.CopyParams{SourcePath: source, DestinationPath: target, Recursive: true}, nil))
}

// Rename renames within one file system, replacing what is there. It needs the
// capability fsRename.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	return c.rename(ctx, from, to, true)
}

// RenameNew is Rename that fails with fs.ErrExist where something is there.
func (c *Client) RenameNew(ctx context.Context, from, to string) error {
	return c.rename(ctx, from, to, false)
}

func (c *Client) rename(ctx context.Context, from, to string, overwrite bool) error {
	if err := c.need(ctx, protocol.CapFsRename); err != nil {
		return err
	}
	source, target, err := c.uris(ctx, from, to)
	if err != nil {
		return err
	}
	return pathError("rename", from, c.call(ctx, protocol.MethodFsRename,
		&protocol.RenameParams{SourcePath: source, DestinationPath: target, Overwrite: &overwrite}, nil))
}

func (c *Client) uris(ctx context.Context, from, to string) (source, target string, err error) {
	source, sourceErr := c.uri(ctx, from)
	target, targetErr := c.uri(ctx, to)
	return source, target, errors.Join(sourceErr, targetErr)
}

// Symlink makes a link at name with the text target. It needs the capability
// fsSymlink.
func (c *Client) Symlink(ctx context.Context, target, name string) error {
	if err := c.need(ctx, protocol.CapFsSymlink); err != nil {
		return err
	}
	uri, err := c.uri(ctx, name)
	if err != nil {
		return err
	}
	params := &protocol.SymlinkParams{Path: uri}
	if utf8.ValidString(target) {
		params.Target = &target
	} else {
		raw := protocol.Bytes(target)
		params.TargetBase64 = &raw
	}
	return pathError("symlink", name, c.call(ctx, protocol.MethodFsSymlink, params, nil))
}

// ReadLink returns the text of a link. It needs the capability fsReadLink.
func (c *Client) ReadLink(ctx context.Context, name string) (string, error) {
	if err := c.need(ctx, protocol.CapFsReadLink); err != nil {
		return "", err
	}
	var result protocol.ReadLinkResult
	if err := c.onPath(ctx, "readlink", protocol.MethodFsReadLink, name, &result); err != nil {
		return "", err
	}
	if len(result.TargetBase64) > 0 {
		return string(result.TargetBase64), nil
	}
	return result.Target, nil
}

// Chmod sets permissions, following links. It needs the capability fsChmod.
func (c *Client) Chmod(ctx context.Context, name string, mode iofs.FileMode) error {
	if err := c.need(ctx, protocol.CapFsChmod); err != nil {
		return err
	}
	uri, err := c.uri(ctx, name)
	if err != nil {
		return err
	}
	return pathError("chmod", name, c.call(ctx, protocol.MethodFsChmod,
		&protocol.ChmodParams{Path: uri, Mode: bitsOf(mode)}, nil))
}
