package tree

import (
	"math"
	"time"
)

// A Kind is what a node is, and for entries of the change stream also KindDelete. The
// numbers are stored.
type Kind uint8

// The kinds.
const (
	KindFile    Kind = 1
	KindDir     Kind = 2
	KindSymlink Kind = 3
	KindDelete  Kind = 4 // an entry only, never a node
)

// String is the kind's name among peers.
func (k Kind) String() string {
	switch k {
	case KindFile:
		return "file"
	case KindDir:
		return "dir"
	case KindSymlink:
		return "symlink"
	case KindDelete:
		return "delete"
	}
	return "unknown"
}

// ModeMask is the bits of a mode that are kept. A symbolic link always has LinkMode.
const (
	ModeMask uint32 = 0o7777
	LinkMode uint32 = 0o777
)

// MaxRev is the last revision there can be: peers count in floating point.
const MaxRev int64 = 1<<53 - 1

// A Namespace is one tree of a store: a root and a counter of revisions.
type Namespace struct {
	ID   int64 // 0 before it is stored
	Name string
	Root int64 // the root's number, 0 while it is being made
	Rev  int64 // the last revision that was given
	// Files and Bytes count files and their sizes, each once however many names it has;
	// Dirs counts directories with the root.
	Files, Dirs, Bytes int64
	Config             string // JSON
}

// A Node is a file, directory or link, whatever its names.
type Node struct {
	Ino       int64 // never used again; 0 before it is stored
	Namespace int64
	Kind      Kind
	Mode      uint32
	Size      int64
	Links     int64 // how many names it has; the root counts one
	MTime     int64 // nanoseconds since 1970
	BTime     int64
	Rev       int64 // of the last change of content or metadata
	MIME      string
	Target    string // links
	Manifest  Hash   // files that are no stubs; zero otherwise
	Mount     int64  // 0 for none
	Stub      bool   // a file whose bytes are not here
}

// A Name is an entry of a directory.
type Name struct {
	Parent    int64
	Name      string
	Child     int64
	Namespace int64
	Rev       int64 // at which this name appeared, or was moved here
}

// A Child is a name with its node.
type Child struct {
	Name
	Node Node
}

// A Tomb says that a path was removed.
type Tomb struct {
	Path  string
	Rev   int64
	Prior []byte // 32 bytes that identify what was removed, or nil
}

// A Move is a moved directory whose tombs are not written yet: one is due for OldPath
// and one for each path below it, as the subtree of Ino says.
type Move struct {
	Rev     int64
	OldPath string
	Ino     int64
}

// Where the bytes of a chunk are.
const (
	ChunkInline uint8 = 1 // in the store
	ChunkObject uint8 = 2 // in an object of the forest's Home
)

// A Place is where the bytes of a chunk begin in an object, in bytes. Objects have numbers
// from 1 on.
type Place struct{ Object, Offset int64 }

// A Chunk is what is known of some bytes. Times are milliseconds since 1970.
type Chunk struct {
	Hash  Hash
	Size  int64
	Where uint8
	At    Place // of ChunkObject
	Seen  int64 // when somebody last pushed it or asked for it
	Dead  int64 // when it was found to be garbage, 0 when it was not
}

// A Use is a window of a file that a part names a chunk for.
type Use struct {
	Ino   int64
	Index int
}

// An Object is how much of an object chunks refer to, in bytes.
type Object struct{ Number, Bytes int64 }

// A Peer is how far synchronisation with somebody has come.
type Peer struct {
	ID    string
	Push  Cursor // up to where the peer is known to have our changes
	Fetch Cursor // up to where we have applied the peer's
	Seen  int64  // milliseconds since 1970
}

// Nanos is a time in nanoseconds since 1970, as rows have it. Of a year before 1678 or after 2261 it is
// the nearest one that fits.
func Nanos(t time.Time) int64 {
	const limit = math.MaxInt64/1_000_000_000 - 1
	return min(max(t.Unix(), -limit), limit)*1_000_000_000 + int64(t.Nanosecond())
}
