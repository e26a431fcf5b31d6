package changes

import "time"

// What a peer can make a Server keep or do. Each names the reaction to exceeding it.
const (
	// MaxHashes bounds a list of hashes, and the objects of one PushObjects. A longer one
	// is refused with EPROTOCOL.
	MaxHashes = 65_536
	// MaxIgnored bounds an ignore list; a longer one is refused with EPROTOCOL.
	MaxIgnored = 1024
	// MaxSpooledBytes bounds what the pushes that are under way at a Server keep of their
	// entries, and once more what the packs do that it makes, unless Config says
	// otherwise. Each may have a quarter of it. One that goes beyond either is refused with
	// EPROTOCOL. An entry takes about 30 bytes, its path, and 35 for each chunk: a push has
	// room for two million files.
	MaxSpooledBytes = 1 << 30
	// spoolMemory is how many of those bytes a Server keeps in memory, and spoolOwn how
	// many one push does; the rest is in a temporary file.
	spoolMemory = 8 << 20
	spoolOwn    = 1 << 20
	// MaxPackEntries bounds the entries of a pack that is made, whatever was asked for.
	MaxPackEntries = 100_000
	// MaxConflicts bounds the entries of a push that are not applied because of its Base. A
	// push with more is refused as a whole with EPROTOCOL: fewer entries can be sent at once.
	MaxConflicts = 2000
	// MaxOvertaken bounds the versions that a push answers, the rest are counted; MaxLost
	// those that are listed in one call.
	MaxOvertaken = 1000
	// MaxKept bounds the removed paths of a push that are answered as kept. The rest are
	// counted.
	MaxKept = 1000
	// MaxUnwritten bounds the paths of a push that are answered as not written yet. The rest are
	// counted.
	MaxUnwritten = 2000
	MaxLost      = 1000
	// MaxSkipped bounds the paths that are named of those that a workspace leaves out for one
	// reason, and maxSkippedBytes their bytes in an answer. The rest are counted.
	MaxSkipped      = 100
	maxSkippedBytes = 32 << 10

	// MaxAwait is how long an Await waits. A connection has one at a time: the next one
	// answers the one before.
	MaxAwait = time.Minute
	// awaitLook is how often an Await looks at a disk of which nobody tells, and awaitPause how
	// long it lets changes gather otherwise.
	awaitLook  = 2 * time.Second
	awaitPause = 5 * time.Millisecond

	// objectsIdle is for how long nothing comes of a push before what came is noted.
	objectsIdle = 10 * time.Millisecond
	// readAhead is how many objects of a push are taken from the peer while others are
	// being written, batchObjects and batchBytes how many of a pack are kept at once.
	readAhead    = 8
	batchObjects = 256
	batchBytes   = 4 << 20
	// fetchPage is how many entries a change stream reads at once.
	fetchPage = 256
)
