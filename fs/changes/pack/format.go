package pack

import (
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// Version is that of the format.
const Version = 1

// The kinds of records.
const (
	tagHeader = 1
	tagObject = 2
	tagEntry  = 3
	tagFooter = 4
)

// frameSize is what stands before a payload.
const frameSize = 5

// Limits of a pack. A Decoder refuses what is beyond them, and what an Encoder is given
// beyond them fails.
const (
	// MaxPiece is how many bytes of a pack are sent at once.
	MaxPiece = 1 << 20
	// MaxGeneration is the length of a generation, MaxFrame of a header's or footer's JSON.
	MaxGeneration = 256
	MaxFrame      = 64 << 10
	// MaxEntry is the length of an entry's JSON: room for the chunks of a file of 80 GB.
	MaxEntry = 16 << 20
	// MaxEntries and MaxObjects bound their numbers. All objects together, however well
	// they were compressed, have 128 GiB at most.
	MaxEntries = 1 << 20
	MaxObjects = 1 << 18
)

// ErrInvalid is what is wrong with bytes that are no pack, or not the one expected.
var ErrInvalid = errors.New("invalid pack")

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

type header struct {
	Version    int64  `json:"version"`
	Generation string `json:"generation"`
}

// A Footer says what a pack has.
type Footer struct {
	Version    int64  `json:"version"`
	Generation string `json:"generation"`
	// After and Target are the window that was asked for; the pack takes whoever applies
	// it to BlockCursor.
	After       protocol.Cursor `json:"after"`
	BlockCursor protocol.Cursor `json:"blockCursor"`
	Target      protocol.Cursor `json:"target"`
	EntryCount  int64           `json:"entryCount"`
	ObjectCount int64           `json:"objectCount"`
	ObjectBytes int64           `json:"objectBytes"`
	// Digest is that of all object and entry records, see digest.
	Digest string `json:"digest"`
}

// A Record is one object, one entry, or the footer.
type Record struct {
	Object *tree.Data
	Entry  *protocol.ChangeEntry
	Footer *Footer
}

// digest is FNV-1a of 32 bits over the object and entry records with their frames. On
// the wire it is lower-case hexadecimal without leading zeros.
type digest uint32

const (
	digestStart digest = 0x811c9dc5
	digestPrime digest = 0x01000193
)

func (d *digest) add(b []byte) {
	h := *d
	for _, c := range b {
		h = (h ^ digest(c)) * digestPrime
	}
	*d = h
}

func (d digest) String() string { return fmt.Sprintf("%x", uint32(d)) }
