package workspace

import (
	"path/filepath"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// Garbage bounds the content that a store keeps although no file has it any more. What a
// push may be about to refer to is not counted: it was brought or asked for within
// tree.MinUnseen.
type Garbage struct {
	Bytes int64 // 0 for DefaultGarbageBytes, negative for no bound
	Share int   // percent of the store's file system; 0 for DefaultGarbageShare, negative for no bound

	room func(dir string) (size, free int64) // of its file system; nil for sqlite.Room
}

const (
	// DefaultGarbageBytes is Garbage.Bytes unless it is set.
	DefaultGarbageBytes = 1 << 30
	// DefaultGarbageShare is Garbage.Share unless it is set.
	DefaultGarbageShare = 2
	// scarceShare is how much of a file system is free, in percent, when no garbage is kept.
	scarceShare = 2
)

// policy is that of a collection now, of a store in a file.
func (g Garbage) policy(file string) tree.Policy {
	room := g.room
	if room == nil {
		room = sqlite.Room
	}
	size, free := room(filepath.Dir(file))
	return g.policyFor(size, free)
}

// policyFor is policy on a file system of a size; 0 if it is not known.
func (g Garbage) policyFor(size, free int64) tree.Policy {
	most := g.Bytes
	if most == 0 {
		most = DefaultGarbageBytes
	}
	share := int64(g.Share)
	if share == 0 {
		share = DefaultGarbageShare
	}
	if share > 0 && size > 0 && (most < 0 || most > size/100*share) {
		most = max(size/100*share, 1)
	}
	if size > 0 && free < size/100*scarceShare {
		most = 0
	}
	switch {
	case most < 0:
		return tree.Policy{}
	case most == 0:
		return tree.Policy{MaxBytes: -1}
	}
	return tree.Policy{MaxBytes: most}
}
