package disk

import "time"

const (
	// batchPaths is how many paths are read and stored with one transaction.
	batchPaths = 8000
	// journalBytes is the size of a row of the journal.
	journalBytes = 32 << 10
	// pagePaths is about how many paths of the journal are brought to the disk together.
	pagePaths = 4000
	// smallFile is the size up to which the content of files is read together, up to
	// prefetchBytes, before they are written.
	smallFile     = 32 << 10
	prefetchBytes = 256 << 10
	// keptEntries is how many entries of a batch stay in memory for that; those of longer
	// ones are read again from the tree.
	keptEntries = 20_000

	// maxEvents is how many events of the system wait to be noted, maxDirty of how many
	// names they may be until the next settle. When there are more, that looks at everything.
	maxEvents = 1 << 16
	maxDirty  = 100_000

	// readAttempts is how often a file is read that changes meanwhile.
	readAttempts = 3
	// putBackAttempts is how often an exchange is undone while others change the name.
	putBackAttempts = 100
	// asideAttempts is how many names are tried for what is put aside.
	asideAttempts = 100
	// maxWaits is how many milliseconds a bringer waits, all in all, for files that are
	// replaced or removed while somebody has them open for writing. Those that are open
	// for longer are disposed of by a later settle.
	maxWaits = 100
	// longBytes is the length from which SettleEnded leaves out a file that its command cannot
	// have written.
	longBytes = 1 << 20
	// grace is for how long a file that was removed stays open, in case a program is about to
	// write to it, graceOpen until it is looked at again if one does. maxRetired and
	// retiredBytes are how many files, of what length together, stay open so long; when there
	// are more, those that were there the longest are closed at once. Not more than
	// maxUnfinished that are written to, or cannot be kept, are looked after.
	grace         = 20 * time.Millisecond
	graceOpen     = time.Second
	maxRetired    = 64
	retiredBytes  = 16 << 20
	maxUnfinished = 1000
	// maxStaying is how many names are told of that hold up the removal of a directory.
	maxStaying = 3
	// granularity is what the clock of a file system is at least as fine as: the kernel's
	// tick. Where all times are whole seconds, coarseGranularity.
	granularity       = 20 * time.Millisecond
	coarseGranularity = 2 * time.Second

	// maxMissed bounds the paths that are remembered since their content was asked for in vain.
	// Others are offered as they are.
	maxMissed = 1000
	// minCloned is the size from which a file is cloned instead of copied: what is smaller is copied as
	// quickly. maxBeginning is how many files are tried to clone one of them.
	minCloned    = 64 << 10
	maxBeginning = 4
	// maxCopied is how many bytes that only files have are copied in the transaction of a batch. More
	// is copied before it is tried again, up to planAttempts times.
	maxCopied    = 4 << 20
	planAttempts = 4
	// maxLeaving bounds the removed paths of a batch that are remembered since what they had may
	// be wanted elsewhere. What others had is copied.
	maxLeaving = 200_000

	// maxReported is how many differences Check names.
	maxReported = 100
)

// limits are those that shape what is done, but not what comes of it.
type limits struct {
	batch, kept, page, journal int
	grace                      time.Duration
}

var standard = limits{batch: batchPaths, kept: keptEntries, page: pagePaths, journal: journalBytes, grace: grace}
