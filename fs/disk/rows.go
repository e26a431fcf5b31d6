package disk

import (
	"encoding/binary"
	"errors"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Rows are what a Workspace keeps in the tree's store, in the transactions of the tree: a
// tree.Tx of a store that is fit for directories implements it.
type Rows interface {
	// DiskRoot returns the row of a directory; its ID is 0 when there is none.
	DiskRoot(tree, mount string) (Root, error)
	// PutDiskRoot inserts one whose ID is 0, and sets it; else it replaces the row.
	PutDiskRoot(*Root) error

	// DiskStat returns the row of a path, nil when there is none.
	DiskStat(root int64, path string) ([]byte, error)
	// DiskStats calls fn for all rows of a root, a directory before what is in it. The bytes given to
	// fn are not kept.
	DiskStats(root int64, fn func(path string, stat []byte) error) error
	// PutDiskStats inserts or replaces rows.
	PutDiskStats(root int64, rows []Row) error
	// DeleteDiskStats removes the row of a path and those of all paths below it; of all
	// paths for "".
	DeleteDiskStats(root int64, path string) error

	// MoveDiskStats gives the row of a path, and those of all paths below it, another path,
	// where there is none.
	MoveDiskStats(root int64, from, to string) error

	// DiskJournal calls fn for the rows of a root whose ids are above after, in the order in which they were added.
	DiskJournal(root, after int64, fn func(id int64, paths []byte) error) error
	// LastDiskJournal returns the largest id of the rows of a root, 0 if there are none.
	LastDiskJournal(root int64) (int64, error)
	// AddDiskJournal adds a row and returns its id.
	AddDiskJournal(root int64, paths []byte) (int64, error)
	DeleteDiskJournal(root int64, ids []int64) error
}

// A Root is a directory that stands for a path of a tree.
type Root struct {
	ID          int64
	Tree, Mount string
	State       []byte
}

// A Row is what a path looked like when it was in step.
type Row struct {
	Path string
	Stat []byte
}

// rowsOf finds the rows in a transaction of the tree.
func rowsOf(tx tree.Tx) (Rows, error) {
	if rows, ok := tx.(Rows); ok {
		return rows, nil
	}
	return nil, errors.New("the store keeps no rows of directories")
}

// A stat is what tells one version of a file from another without reading it.
type stat struct {
	dev          uint64 // 0 for that of the workspace's directory, whose number may change
	ino          uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
	btime        int64 // 0 where the file system does not tell
	mode         uint16
	kind         tree.Kind // 0 for what is neither file, directory nor link
	flags        uint8
}

const kindDir = tree.KindDir

const (
	// again: the content may have changed without a trace, so it is to be read again.
	again uint8 = 1 << iota
	// linked: there are other names of the file.
	linked
	// opened: somebody had the file open for writing when it was read. Until that is closed,
	// the content may change without a trace.
	opened
	// rawTarget: the target of a link is not UTF-8.
	rawTarget
)

// unsure are the flags of a file whose content may be another one, whatever else is the same.
const unsure = again | opened

// same reports whether nothing tells that a file or link has changed between a and b.
func (a *stat) same(b *stat) bool {
	return a.kind == b.kind && a.ino == b.ino && a.size == b.size && a.mtime == b.mtime &&
		a.ctime == b.ctime && a.mode == b.mode && a.dev == b.dev
}

// moved reports whether a and b are one file that was renamed. A number of a deleted file
// is soon that of a new one, which was born later.
func (a *stat) moved(b *stat) bool {
	return a.kind == b.kind && a.ino == b.ino && a.dev == b.dev && a.btime == b.btime && a.btime != 0 &&
		a.size == b.size && a.mtime == b.mtime
}

// sameFile reports whether a and b are one file of one size and mode, whatever its name and
// times.
func (a *stat) sameFile(b *stat) bool {
	return a.kind == b.kind && a.ino == b.ino && a.btime == b.btime && a.size == b.size && a.mode == b.mode
}

// sameDir reports whether a and b are one directory, whatever was done with it. The
// device does not tell: b may have its number as the system gives it.
func (a *stat) sameDir(b *stat) bool {
	return a.kind == tree.KindDir && a.kind == b.kind && a.ino == b.ino && a.btime == b.btime
}

// sameLink reports whether a and b are one link. Its target cannot have changed, whatever its
// times say.
func (a *stat) sameLink(b *stat) bool {
	return a.kind == tree.KindSymlink && a.kind == b.kind && a.ino == b.ino && a.btime == b.btime && (a.btime != 0 || a.mtime == b.mtime && a.ctime == b.ctime)
}

func (a *stat) encode() []byte {
	b := make([]byte, 0, 48)
	b = append(b, byte(a.kind), a.flags)
	b = binary.AppendUvarint(b, uint64(a.mode))
	b = binary.AppendUvarint(b, a.dev)
	b = binary.AppendUvarint(b, a.ino)
	for _, v := range []int64{a.size, a.mtime, a.ctime - a.mtime, a.btime} {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func decodeStat(b []byte) (stat, error) {
	r := reader{b: b}
	a := stat{kind: tree.Kind(r.byte()), flags: r.byte()}
	a.mode, a.dev, a.ino = uint16(r.uvarint()), r.uvarint(), r.uvarint() //nolint:gosec // The mode was one.
	a.size, a.mtime = r.varint(), r.varint()
	a.ctime, a.btime = a.mtime+r.varint(), r.varint()
	if r.cut {
		return stat{}, errCut
	}
	return a, nil
}
