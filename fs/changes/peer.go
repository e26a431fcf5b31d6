package changes

import (
	"context"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Peer is one end of a synchronisation as the other one calls it: a *Server of this
// process, or what calls one elsewhere. It is safe for concurrent use. Errors have
// codes, see Code.
type Peer interface {
	// Watermarks says how far the peer is. With settle, what changed on its disk is in
	// its tree first.
	Watermarks(ctx context.Context, settle bool) (Watermarks, error)
	// HasObjects returns those of some hashes that are held, in the order of the call,
	// doubles included.
	HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error)
	// FetchObjects gives the objects in the order asked for. One that is not held fails
	// the call with EUNKNOWN_HASH.
	FetchObjects(ctx context.Context, hashes []tree.Hash) (Stream[tree.Data], error)
	// PushObjects takes objects until the stream ends. Those that came before an error
	// are kept.
	PushObjects(ctx context.Context, objects Stream[tree.Data]) error
	// Push applies entries, all or none of them.
	Push(ctx context.Context, in PushInput, entries Stream[tree.Entry]) (PushResult, error)
	// FetchChanges opens a change stream.
	FetchChanges(ctx context.Context, q FetchQuery) (*Fetch, error)
	// ReadEntry is the state of one path: a node, a tomb, or nil for neither.
	ReadEntry(ctx context.Context, path string) (*tree.Entry, error)
	// FetchChangePack is FetchChanges with the content in it, as pieces of a pack.
	FetchChangePack(ctx context.Context, q PackQuery) (*Pack, error)
	// ApplyChangePack applies a pack, all or nothing of it.
	ApplyChangePack(ctx context.Context, generation string, pieces Stream[[]byte]) (PackResult, error)
	// Lost lists versions that are kept since something took their place, by their numbers,
	// from behind one on: up to limit and MaxLost of them, 0 for that many. It also reports
	// whether there are more. errors.ErrUnsupported says that the peer cannot tell.
	Lost(ctx context.Context, after int64, limit int) ([]lost.Version, bool, error)
	// Await returns the tree's revision once it is above another one, what is on its disk
	// included, once Lost has a version with a greater number than known, 0 for the greatest that it
	// has now, or after some time, MaxAwait at most. errors.ErrUnsupported says that the peer cannot.
	Await(ctx context.Context, after, known int64) (int64, error)
}

// A Stream gives items one after the other. One goroutine at a time uses it, and closes
// it when it wants no more, at its end too.
type Stream[T any] interface {
	// Next returns io.EOF after the last item.
	Next(ctx context.Context) (T, error)
	// Close gives up what is left; err is why, nil for no reason.
	Close(err error)
}

// Watermarks are how far a peer is.
type Watermarks struct {
	CurrentRev int64       // its tree's revision
	PushRev    int64       // up to where it knows that its own changes have been taken
	Fetch      tree.Cursor // up to where it has applied what was pushed to it
	ChecksBase bool        // Push looks at PushInput.Base
	SetsTimes  bool        // Push looks at PushInput.Times
	// ChecksAlone: Push looks at PushInput.Alone.
	ChecksAlone bool
	AnyNames    bool  // paths and targets may stand for bytes that are not UTF-8 (package rawname)
	Lost        int64 // the greatest number of a version that Lost has, or had
	// Skipped are the paths that its disk and its tree do not have in common.
	Skipped []Skipped
}

// PushInput goes with pushed entries.
type PushInput struct {
	// SenderRev is the sender's revision; 0 is for somebody who is no peer, whose
	// entries are like changes of the receiver's own.
	SenderRev int64
	// Cursor is how far the sender's changes are complete with this push; nil for all
	// of SenderRev.
	Cursor *tree.Cursor
	// Base is how far the sender has seen the receiver's changes. An entry is not applied
	// if it would take away what has changed since: at its path, below it if it leaves no
	// directory there, or above it what is no directory. nil applies all.
	Base *tree.Cursor
	// Ignore are names that the sender leaves alone: what has one in a directory that an
	// entry removes stays there, with the directories that it is in.
	Ignore []string
	// Partly: the sender reads of Watermarks which entries could not be written to the disk.
	// The push does not fail because of them, nor for want of room.
	Partly bool
	// Times has an entry of a file that is the same but for its time set the time.
	Times bool
	// Alone has the push fail with CodeUnseen, and apply nothing, if any file or link of the
	// receiver's has changed since Base.
	Alone bool
}

// PushResult says that a push was applied.
type PushResult struct {
	Rev     int64 // the receiver's revision
	Before  int64 // what it was before, so that all in between is of these entries; 0 if not known
	Applied int   // how many entries came
	// AppliedPushCursor is the cursor that was pushed; zero if the sender is no peer.
	AppliedPushCursor tree.Cursor
	// Conflicts are the paths of entries that were not applied because of the Base.
	Conflicts []string
	// Overtaken are as those of Applied, up to MaxOvertaken; Lost lists the others.
	Overtaken     []lost.Version
	MoreOvertaken int
	// Kept are as those of Applied, up to MaxKept: what Ignore hides is there as well.
	Kept     []Kept
	MoreKept int
	// Disowned are as those of Applied, up to MaxSkipped.
	Disowned     []string
	MoreDisowned int
	// Unwritten are the paths of entries that are not on the disk yet, up to MaxUnwritten, where
	// PushInput.Partly is set.
	Unwritten     []string
	MoreUnwritten int
}

// FetchQuery says which changes are wanted.
type FetchQuery struct {
	After   tree.Cursor
	Through *tree.Cursor // nil for the present
	// Ignore are names that hide all paths with such a segment. nil is the receiver's
	// default, an empty list hides nothing.
	Ignore []string
}

// Fetch is an open change stream.
type Fetch struct {
	// Current is where whoever has read all entries is, AppliedPush up to where the
	// peer had applied what was pushed to it.
	Current     tree.Cursor
	AppliedPush tree.Cursor
	Entries     Stream[tree.Entry]
}

// PackQuery says which changes a pack is to have: as many as come first and stay within
// the bounds, one at least.
type PackQuery struct {
	FetchQuery
	MaxEntries int
	MaxBytes   int64 // of distinct objects
	Generation string
}

// Pack is an open pack.
type Pack struct {
	Cursor      tree.Cursor // behind the last entry in it
	Drained     bool        // there are no more changes
	Entries     int
	AppliedPush tree.Cursor
	Pieces      Stream[[]byte] // of 1 MiB at most
}

// PackResult says that a pack was applied.
type PackResult struct {
	AppliedPushCursor tree.Cursor // up to where the receiver has applied what was pushed
	Applied           int         // entries that changed something
	Entries           int
}
