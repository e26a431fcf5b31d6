package mirror

import "time"

// What moves at once, and how much is remembered.
const (
	// BlockEntries bounds the entries of a block of a push or pull, BlockObjects and BlockBytes
	// the distinct content that they name and the other end lacks, blockText the room that the
	// entries take on the wire, about. One entry is always taken.
	BlockEntries = 32_768
	BlockObjects = 2000
	BlockBytes   = 64 << 20
	blockText    = 16 << 20
	// partBytes is how much of the content of new files is read before some of it is sent.
	partBytes = 6 << 20
	// plainEntries bounds the entries of a block for a remote that does not look at a base:
	// published ones send as many.
	plainEntries = 2000
	// askHashes is how many hashes are asked about or fetched in one call, maxAsked how many
	// are remembered as asked about in one push or pull. Above it all are forgotten: content that
	// several blocks name may be asked about, and sent, twice.
	askHashes = 8192
	maxAsked  = 1 << 18
	// maxListed bounds the changes that are kept from the question whether they may be pushed to
	// the push. Above it they are read twice.
	maxListed = BlockEntries
	// maxSampled is of how much content of renamed files the remote is asked about. If it has
	// that it has the rest, too.
	maxSampled = 64
	// page is how many entries are read from the tree at once.
	page = 256

	// maxRemovals bounds the paths that are remembered as removed, or made, within a short time.
	// More are not counted together.
	maxRemovals = 1 << 17

	// maxSpans bounds the revisions that are remembered as the other end's. The oldest go:
	// what they cover is then sent, or fetched, in vain.
	maxSpans = 512
	// maxSent bounds the paths that are remembered as sent and not read back, which is
	// needed for a remote that does not say what its push changed. Above it all are
	// forgotten, and what is read back of them may be taken for a conflict.
	maxSent = 1 << 16
	// maxHeld bounds the paths that are remembered as withheld, or held in conflict. A remote
	// that has more is not pulled from.
	maxHeld = 20_000
	// maxWaits bounds the versions that are remembered as waiting at the remote for room here, and how many that were
	// overtaken there are dealt with in one transaction. With so many no others are looked at until some have come.
	maxWaits = 1000
	// maxLostLists bounds the lists of versions that were overtaken at the remote, of changes.MaxLost each, that a call asks
	// for. With more it fails, and the next call goes on.
	maxLostLists = 1000
	// maxIgnored bounds the paths of the remote that are remembered since rules hide them, and
	// maxIgnoredBytes their bytes. A remote that has more is not pulled from.
	maxIgnored      = 100_000
	maxIgnoredBytes = 16 << 20
	// maxBlocked bounds those of them at which this side has something of another kind.
	maxBlocked = 1000
	// maxLeft bounds the directories that are remembered as removed by the remote and not here. More are not removed once
	// nothing is in them.
	maxLeft = 1000
	// maxRuleBytes and maxRuleFiles bound the rules of what is ignored. With more nothing is
	// moved.
	maxRuleBytes = 1 << 20
	maxRuleFiles = 4096
	// maxShownRules bounds the rules that counted earlier and are remembered until both sides
	// are in step by those of now. With more all of them are forgotten: what differs then is in
	// conflict, as after the loss of a store.
	maxShownRules = 16
	// maxLocal bounds the paths that are listed as changed here before a pull. Above it
	// each incoming path is looked up.
	maxLocal = 10_000
	// MaxReported bounds the conflicts that a ConflictError lists. The rest are counted.
	MaxReported = 1000
	// minPause is after what time a mirror that goes on tries again what a side had no room for, or this
	// side could not read. Each try in vain doubles it, up to maxPause.
	minPause = time.Second
	maxPause = 30 * time.Second
	// maxRegained is how many paths whose content the remote cannot read are asked for while a watch
	// goes on. The rest is asked for with the next connection, or when one of these is to be had. Of those
	// that cannot be read here as many are tried at once.
	maxRegained = 100
	// maxLooks is how many questions about single paths are under way at once.
	maxLooks = 8
	// maxTries is how often a block is decided anew since what it meets here has changed, and how
	// often content is fetched of which some is gone meanwhile.
	maxTries = 8
	// maxVanished is how often the content of a block, or of versions of a path in a call, may be gone when
	// it is needed.
	maxVanished = 3
	// maxPulls is how often a tick pulls again since the remote has changed before all was
	// pushed. The last push is made whatever happens there meanwhile.
	maxPulls = 4
	// maxRounds is how many ticks a Sync makes at most.
	maxRounds = 16
)

// limits are those that shape what is done, but not what comes of it.
type limits struct {
	entries, plain, objects, ask, lost int
	part                               int64
}

var standard = limits{entries: BlockEntries, plain: plainEntries, objects: BlockObjects, ask: askHashes, lost: maxLostLists, part: partBytes}
