package tree

import (
	"context"
	"errors"
)

// ErrNoRow is returned by the methods of Tx for what is not there.
var ErrNoRow = errors.New("no such row")

// A Store keeps the rows of trees: tables with hardly a rule of their own. Package
// treetest has the tests that every implementation must pass. It is safe for concurrent
// use; a Tx is not, and is not used after the function it was given to has returned.
type Store interface {
	// View gives fn a state of the store that does not change while fn runs. Writing
	// methods of the Tx fail. Many views run at once, and beside an update.
	View(ctx context.Context, fn func(Tx) error) error
	// Update gives fn the store to change. All changes are kept together once fn has
	// returned nil, else none. One update runs at a time, in the order of the calls.
	// It returns fn's error as it is.
	Update(ctx context.Context, fn func(Tx) error) error
}

// A Tx reads and writes rows. What it returns belongs to the caller. The functions given
// to its methods must not use the Tx; an error of theirs ends the call and is returned.
type Tx interface {
	// Trees.

	Namespace(name string) (Namespace, error)
	Namespaces() ([]Namespace, error)
	// PutNamespace inserts one whose ID is 0, and sets it; else it replaces the row.
	PutNamespace(*Namespace) error

	// Nodes.

	Node(ino int64) (Node, error)
	// Nodes calls fn for those of some nodes that there are, in any order. Of a node only
	// what entries have is set: Ino, Kind, Mode, Size, MTime, Target.
	Nodes(inos []int64, fn func(Node) error) error
	// PutNode inserts one whose Ino is 0, and sets it; else it replaces the row, whose Rev never
	// gets smaller. What a file consists of stays, with its Size and Manifest.
	PutNode(*Node) error
	// DeleteNode removes a node with its parts.
	DeleteNode(ino int64) error
	// NodesAfter calls fn for every name of every node with a revision above rev, unless
	// the name has one, too. Of the node only Ino, Kind, Rev and Stub are set.
	NodesAfter(ns, rev int64, fn func(Child) error) error

	// Entries of directories.

	Lookup(parent int64, name string) (Child, error)
	// Children returns up to limit entries of a directory in the order of their bytes,
	// those behind after.
	Children(parent int64, after string, limit int) ([]Child, error)
	NamesOf(ino int64) ([]Name, error)
	// PutName inserts or replaces a row.
	PutName(Name) error
	DeleteName(parent int64, name string) error
	// NamesAfter calls fn for every name with a revision above rev, with its node, of which
	// only Ino, Kind, Rev and Stub are set.
	NamesAfter(ns, rev int64, fn func(Child) error) error

	// Removed paths.

	Tomb(ns int64, path string) (Tomb, error)
	// PutTomb inserts a row, or replaces one with a smaller revision.
	PutTomb(ns int64, t Tomb) error
	TombsAfter(ns, rev int64, fn func(Tomb) error) error
	Moves(ns int64) ([]Move, error)
	PutMove(ns int64, m Move) error
	DeleteMove(ns int64, m Move) error

	// Content of files.

	Parts(ino int64) ([]Part, error)
	// PartsOf calls fn for the parts of some files, those of each in their order.
	PartsOf(inos []int64, fn func(ino int64, p Part) error) error
	// PutFile is PutNode for a file that consists of other parts from now on: its Size and Manifest
	// are theirs. was is what it consists of so far, nothing if it is new.
	PutFile(n *Node, was, parts []Part) error

	// Bytes.

	Chunk(h Hash) (Chunk, error)
	// Expect says that the caller is about to ask for these chunks, or to put them: a store may
	// look for all of them at once. It changes nothing of what the other methods return.
	Expect(hashes []Hash) error
	// ChunkBytes appends the bytes of a chunk that is inline to dst.
	ChunkBytes(h Hash, dst []byte) ([]byte, error)
	// PutChunk keeps the bytes, seen at now, unless they are there: then it only says
	// that they were seen, and are not dead. It reports whether they were new.
	PutChunk(h Hash, data []byte, now int64) (bool, error)
	// PutPlaced is PutChunk for a chunk whose bytes are in an object. It reports whether that is
	// where the chunk is now.
	PutPlaced(h Hash, size int64, at Place, now int64) (bool, error)
	// PlaceChunk says that the bytes of a chunk that is there are in an object now, and no
	// longer where they were.
	PlaceChunk(h Hash, at Place) error
	// MarkChunk sets when a chunk was seen and when it was found dead (0: it was not).
	MarkChunk(h Hash, seen, dead int64) error
	DeleteChunk(h Hash) error
	// Referenced reports whether a part names the chunk.
	Referenced(h Hash) (bool, error)
	// CountUses calls fn for those of some chunks that parts name, in any order, with the number
	// of these parts, limit at most. No hash is given twice.
	CountUses(hashes []Hash, limit int, fn func(h Hash, parts int) error) error
	// Unreferenced returns up to limit chunks that no part names, in the order of their
	// hashes, those behind after, that were last seen before a time.
	Unreferenced(after Hash, seenBefore int64, limit int) ([]Chunk, error)
	// ReferencedChunks returns up to limit chunks that parts name, in the order of their hashes,
	// those behind after.
	ReferencedChunks(after Hash, limit int) ([]Chunk, error)
	// Uses returns up to limit parts that name a chunk, in any order.
	Uses(h Hash, limit int) ([]Use, error)
	// ChunksIn returns the chunks in an object, by their offset, up to limit of them.
	ChunksIn(object int64, limit int) ([]Chunk, error)
	// DeletePlaced removes the chunks that are in the first Bytes of objects. It returns the
	// numbers of the objects without a chunk after that.
	DeletePlaced(list []Object) ([]int64, error)
	// Objects lists the objects that chunks are in.
	Objects() ([]Object, error)

	// Peers of synchronisation.

	Peer(ns int64, id string) (Peer, error)
	PutPeer(ns int64, p Peer) error

	// Whole tables, for checks.

	EachNode(fn func(Node) error) error
	EachName(fn func(Name) error) error
	EachPart(fn func(ino int64, index int, p Part) error) error
	// EachChunk gives each chunk with the number of bytes that the store has of it, -1
	// when it has none.
	EachChunk(fn func(c Chunk, stored int64) error) error
	// EachPeer gives the peers of all namespaces.
	EachPeer(fn func(ns int64, p Peer) error) error
}
