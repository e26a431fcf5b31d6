package fs

import (
	"context"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// metadataOverhead is what the metadata of a listed name takes, encoded, too.
const metadataOverhead = 768

func (s *Service) readDirectory(ctx context.Context, p *protocol.ReadDirectoryParams) (*protocol.ReadDirectoryResult, error) {
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	d, err := openDir(path)
	if err != nil {
		return nil, err
	}
	defer d.close()
	listed, err := d.list(&listing{ctx: ctx})
	if err != nil {
		return nil, err
	}
	if s.confined && len(listed) > maxConfinedEntries {
		return nil, refused("directory is too large to be listed in a sandbox: limit is %d entries", maxConfinedEntries)
	}
	if isSet(p.IncludeMetadata) {
		if err := rpc.Charge(ctx, int64(len(listed))*metadataOverhead); err != nil {
			return nil, err
		}
	}
	result := &protocol.ReadDirectoryResult{Entries: make([]protocol.DirectoryEntry, 0, len(listed))}
	for _, e := range listed {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		out := protocol.DirectoryEntry{FileName: e.name}
		if isSet(p.IncludeMetadata) {
			if out.Metadata = d.entryMetadata(e.name); out.Metadata == nil {
				continue
			}
			out.IsDirectory, out.IsFile = out.Metadata.IsDirectory, out.Metadata.IsFile
		} else {
			kind, err := d.kindOf(e, true)
			if err != nil { // it has gone, or it is a link to nowhere
				continue
			}
			out.IsDirectory, out.IsFile = kind == unix.S_IFDIR, kind == unix.S_IFREG
		}
		if !utf8.ValidString(e.name) {
			out.Path = fileuri.Format(slashpath.Join(path, e.name))
		}
		result.Entries = append(result.Entries, out)
	}
	return result, nil
}

// entryMetadata describes name; a link to nowhere is described itself, and what has
// gone is nil.
func (d *directory) entryMetadata(name string) *protocol.Metadata {
	m, err := metadataAt(d.fd, name)
	if err != nil {
		m, _, err = statMetadata(d.fd, name, false)
	}
	if err != nil {
		return nil
	}
	return m
}
