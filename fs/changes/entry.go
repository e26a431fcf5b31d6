package changes

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// CheckEntry refuses, with EINVAL, an entry of a peer that makes no sense by itself: a
// kind that there is none of, a path that is not canonical or too long, a revision that
// peers cannot count, chunks that do not cut a file as tree.ChunkSize says or do not add
// up to its size, a link to nothing. Whether the chunks are held is another matter.
func CheckEntry(e *tree.Entry) error {
	if err := tree.CheckPath(e.Path); err != nil {
		return Invalid(e.Path, "%w", err)
	}
	if err := checkRev(e.Rev); err != nil {
		return Invalid(e.Path, "%w", err)
	}
	if e.Kind != tree.KindDelete && (e.MTime.UnixMilli() > tree.MaxRev || e.MTime.UnixMilli() < -tree.MaxRev) {
		return Invalid(e.Path, "%w: a time beyond what peers can count", tree.ErrInvalid)
	}
	if e.RenamedTo != "" {
		if err := tree.CheckPath(e.RenamedTo); err != nil {
			return Invalid(e.Path, "where it was renamed to: %w", err)
		}
		if e.Kind != tree.KindDelete {
			return Invalid(e.Path, "%w: only a delete says where a directory is now", tree.ErrInvalid)
		}
	}
	switch e.Kind {
	case tree.KindFile:
		return checkParts(e)
	case tree.KindDir:
		return nil
	case tree.KindSymlink:
		if err := tree.CheckTarget(e.Target); err != nil {
			return Invalid(e.Path, "%w", err)
		}
		return nil
	case tree.KindDelete:
		if e.Prior != "" && !isHash(e.Prior) {
			return Invalid(e.Path, "%w: prior is 64 lower-case hexadecimal digits", tree.ErrInvalid)
		}
		return nil
	}
	return Invalid(e.Path, "%w: an entry of kind %d", tree.ErrInvalid, e.Kind)
}

func checkRev(rev int64) error {
	if rev < 0 || rev > tree.MaxRev {
		return &Error{Code: "EINVAL", Err: errRev}
	}
	return nil
}

func checkParts(e *tree.Entry) error {
	var size int64
	for i, p := range e.Parts {
		if p.Size < 1 || p.Size > tree.ChunkSize || i < len(e.Parts)-1 && p.Size != tree.ChunkSize {
			return Invalid(e.Path, "%w: chunk %d of %d has %d bytes", tree.ErrInvalid, i, len(e.Parts), p.Size)
		}
		size += p.Size
	}
	if size != e.Size {
		return Invalid(e.Path, "%w: the chunks have %d bytes, the file %d", tree.ErrInvalid, size, e.Size)
	}
	return nil
}

func isHash(s string) bool {
	return len(s) == 2*len(tree.Hash{}) && strings.Trim(s, "0123456789abcdef") == ""
}

// EntryToWire is the JSON form of an entry of ours.
func EntryToWire(e *tree.Entry) *protocol.ChangeEntry {
	out := &protocol.ChangeEntry{Kind: e.Kind.String(), Rev: e.Rev, Path: e.Path}
	if e.Kind == tree.KindDelete {
		if e.Prior != "" {
			out.Prior = &e.Prior
		}
		out.RenamedTo = e.RenamedTo
		return out
	}
	mode, mtime := int64(e.Mode&tree.ModeMask), protocol.Milliseconds(e.MTime.UnixMilli())
	out.Mode, out.MTime, out.Nanos = &mode, &mtime, int64(e.MTime.Nanosecond())%int64(time.Millisecond)
	switch e.Kind {
	case tree.KindFile:
		chunks := make([]protocol.ChangeChunk, len(e.Parts))
		for i, p := range e.Parts {
			chunks[i] = protocol.ChangeChunk{Hash: p.Hash.String(), Size: p.Size}
		}
		size := e.Size
		out.Size, out.Chunks = &size, &chunks
	case tree.KindSymlink:
		target := e.Target
		out.Target = &target
	default:
	}
	return out
}

// EntryFromWire is the entry that a JSON form stands for, as CheckEntry wants it. Of the mode
// the permission bits are kept.
func EntryFromWire(in *protocol.ChangeEntry) (tree.Entry, error) {
	e := tree.Entry{Rev: in.Rev, Path: in.Path}
	switch in.Kind {
	case "file":
		e.Kind = tree.KindFile
		if in.Size == nil || in.Chunks == nil {
			return e, Invalid(in.Path, "%w: a file without size or chunks", tree.ErrInvalid)
		}
		e.Size = *in.Size
		var err error
		if e.Parts, err = partsOf(in.Path, *in.Chunks); err != nil {
			return e, err
		}
	case "dir":
		e.Kind = tree.KindDir
	case "symlink":
		e.Kind = tree.KindSymlink
		if in.Target == nil {
			return e, Invalid(in.Path, "%w: a link without target", tree.ErrInvalid)
		}
		e.Target = *in.Target
	case "delete":
		e.Kind = tree.KindDelete
		if in.Prior != nil {
			e.Prior = *in.Prior
		}
		e.RenamedTo = in.RenamedTo
		return e, CheckEntry(&e)
	default:
		return e, Invalid(in.Path, "%w: an entry of the kind %.40q", tree.ErrInvalid, in.Kind)
	}
	if in.Mode == nil || in.MTime == nil {
		return e, Invalid(in.Path, "%w: an entry without mode or mtime", tree.ErrInvalid)
	}
	if *in.Mode < 0 || *in.Mode > tree.MaxRev {
		return e, Invalid(in.Path, "%w: the mode %d", tree.ErrInvalid, *in.Mode)
	}
	e.Mode = uint32(*in.Mode) & tree.ModeMask
	if in.Nanos < 0 || in.Nanos >= int64(time.Millisecond) {
		return e, Invalid(in.Path, "%w: %d nanoseconds beside the milliseconds of a time", tree.ErrInvalid, in.Nanos)
	}
	e.MTime = time.UnixMilli(int64(*in.MTime)).Add(time.Duration(in.Nanos))
	return e, CheckEntry(&e)
}

func partsOf(path string, chunks []protocol.ChangeChunk) ([]tree.Part, error) {
	if len(chunks) == 0 {
		return nil, nil
	}
	parts := make([]tree.Part, len(chunks))
	for i, c := range chunks {
		parts[i].Size = c.Size
		if len(c.Hash) != 2*len(tree.Hash{}) {
			return nil, Invalid(path, "%w: the hash of chunk %d has %d digits", tree.ErrInvalid, i, len(c.Hash))
		}
		if _, err := hex.Decode(parts[i].Hash[:], []byte(c.Hash)); err != nil {
			return nil, Invalid(path, "%w: the hash of chunk %d: %w", tree.ErrInvalid, i, err)
		}
	}
	return parts, nil
}
