package client

import (
	iofs "io/fs"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// FileInfo describes a file on the server. It is an fs.FileInfo and an fs.DirEntry.
type FileInfo struct {
	name string
	mode iofs.FileMode
	meta protocol.Metadata
	path string
}

func newFileInfo(name, path string, meta *protocol.Metadata) *FileInfo {
	info := &FileInfo{name: name, path: path, meta: *meta, mode: modeOf(meta.Mode)}
	switch {
	case meta.IsDirectory:
		info.mode |= iofs.ModeDir
	case !meta.IsFile:
		info.mode |= iofs.ModeIrregular
	}
	return info
}

// newLinkInfo describes a symbolic link itself.
func newLinkInfo(name, path string, meta *protocol.Metadata) *FileInfo {
	return &FileInfo{name: name, path: path, meta: *meta, mode: iofs.ModeSymlink | 0o777}
}

// Name is the last element of the path.
func (f *FileInfo) Name() string { return f.name }

// Path is the absolute path on the server.
func (f *FileInfo) Path() string { return f.path }

// Size is in bytes.
func (f *FileInfo) Size() int64 { return int64(f.meta.Size) }

// Mode is the kind and the permissions. The latter are 0 on a server that does not
// tell them.
func (f *FileInfo) Mode() iofs.FileMode { return f.mode }

// ModTime is the time of the last change of the content.
func (f *FileInfo) ModTime() time.Time { return time.UnixMilli(f.meta.ModifiedAtMs) }

// IsDir tells of the target when the path is a link that was followed.
func (f *FileInfo) IsDir() bool { return f.mode.IsDir() }

// IsSymlink tells of the path itself.
func (f *FileInfo) IsSymlink() bool { return f.meta.IsSymlink }

// Hash is the content's, "" when it was not asked for.
func (f *FileInfo) Hash() string { return f.meta.Hash }

// Sys is a protocol.Metadata.
func (f *FileInfo) Sys() any { return f.meta }

// Type implements fs.DirEntry.
func (f *FileInfo) Type() iofs.FileMode { return f.mode.Type() }

// Info implements fs.DirEntry.
func (f *FileInfo) Info() (iofs.FileInfo, error) { return f, nil }

// Bits of chmod(2) beyond the permissions.
const (
	bitSetuid = 0o4000
	bitSetgid = 0o2000
	bitSticky = 0o1000
)

// modeOf turns the bits of chmod(2) into a FileMode.
func modeOf(bits uint32) iofs.FileMode {
	mode := iofs.FileMode(bits & 0o777)
	if bits&bitSetuid != 0 {
		mode |= iofs.ModeSetuid
	}
	if bits&bitSetgid != 0 {
		mode |= iofs.ModeSetgid
	}
	if bits&bitSticky != 0 {
		mode |= iofs.ModeSticky
	}
	return mode
}

// bitsOf turns a FileMode into the bits of chmod(2).
func bitsOf(mode iofs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	if mode&iofs.ModeSetuid != 0 {
		bits |= bitSetuid
	}
	if mode&iofs.ModeSetgid != 0 {
		bits |= bitSetgid
	}
	if mode&iofs.ModeSticky != 0 {
		bits |= bitSticky
	}
	return bits
}
