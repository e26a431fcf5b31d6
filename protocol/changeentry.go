package protocol

import (
	"fmt"
	"math"
	"strconv"

	"github.com/wsd-dev/wsd/protocol/wire"
)

// ChangeEntry is what a change stream says of one path, in the JSON of sync/* and of
// packs (the peers' own wire has its hashes as bytes). Which members there are depends
// on the kind:
//
//	file      kind, rev, path, mode, mtime, size, chunks
//	dir       kind, rev, path, mode, mtime
//	symlink   kind, rev, path, mode, mtime, target
//	delete    kind, rev, path, prior and renamedTo (optional)
//
// Decoding is strict about types: numbers are whole and written without exponent (a time
// may have a fraction, which is dropped), a member that is there has its type. It is tolerant about presence: members of other
// kinds and unknown ones are ignored, null counts as absent. What the kind needs and
// whether the values make sense is decided by whoever takes the entry (package
// fs/changes, EntryOf).
type ChangeEntry struct {
	Kind  string        `json:"kind"` // "file", "dir", "symlink" or "delete"
	Rev   int64         `json:"rev"`  // the sender's
	Path  string        `json:"path"` // absolute and canonical
	Mode  *int64        `json:"mode,omitempty" wire:"nullable"`
	MTime *Milliseconds `json:"mtime,omitempty" wire:"nullable"` // since 1970
	// Nanos is what MTime leaves of the time, 0 to 999,999 nanoseconds. Packs have none.
	Nanos  int64          `json:"nanos,omitempty" wire:"optional"`
	Size   *int64         `json:"size,omitempty" wire:"nullable"`
	Chunks *[]ChangeChunk `json:"chunks,omitempty" wire:"nullable"`
	Target *string        `json:"target,omitempty" wire:"nullable"`
	Prior  *string        `json:"prior,omitempty" wire:"nullable"` // 64 hexadecimal digits
	// RenamedTo is where a directory is now that was renamed and not removed, absent for what was
	// removed and for what is below such a directory. Packs have none.
	RenamedTo string `json:"renamedTo,omitempty" wire:"optional"`
}

// ChangeChunk is one window of a file.
type ChangeChunk struct {
	Hash string `json:"hash"` // SHA-256 in lower-case hexadecimal digits
	Size int64  `json:"size"`
}

// Cursor is a place in a change stream: behind Path of revision Rev, or behind all of
// the revision when Path is null, or absent. The empty path is a path like another.
type Cursor struct {
	Rev  int64   `json:"rev"`
	Path *string `json:"path" wire:"nullable"`
}

// Milliseconds is a time that is written whole, and read with a fraction as well: some
// peers take it from a clock that has one.
type Milliseconds int64

// UnmarshalWire rounds down.
func (m *Milliseconds) UnmarshalWire(raw []byte) error {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		*m = Milliseconds(n)
		return nil
	}
	var f float64
	if err := wire.Unmarshal(raw, &f); err != nil {
		return err
	}
	if math.Abs(f) > 1<<53 {
		return fmt.Errorf("a time of %g milliseconds", f)
	}
	*m = Milliseconds(math.Floor(f))
	return nil
}

// UnmarshalJSON is the same for encoding/json.
func (m *Milliseconds) UnmarshalJSON(raw []byte) error { return m.UnmarshalWire(raw) }

// MarshalJSON is the same JSON for encoding/json.
func (e ChangeEntry) MarshalJSON() ([]byte, error) {
	type plain ChangeEntry
	return wire.Append(nil, plain(e))
}

// MarshalJSON is the same JSON for encoding/json.
func (c Cursor) MarshalJSON() ([]byte, error) {
	type plain Cursor
	return wire.Append(nil, plain(c))
}
