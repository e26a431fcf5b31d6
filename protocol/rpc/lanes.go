package rpc

// Lanes that the methods of several packages share.
const (
	laneFiles   = "files"
	laneWatches = "watches" // held while a watch is set up
)

// The orders of requests that have to do with files. All files are one lane: two paths
// may name one file, through links, mounts or descriptors, and what a program looks at is
// not known before it runs.
var (
	// ReadsFiles requests wait for changes of files before them, and changes behind them
	// wait. They must not take long.
	ReadsFiles = Shared(laneFiles)
	// ChangesFiles requests run one at a time, in the order of arrival, apart from
	// those that read. They also wait for watches before them, which are to see it.
	ChangesFiles = Serial(laneFiles).And(SeenByWatches)
	// LooksAtFiles requests wait for changes of files before them. They may take long:
	// nothing waits for them.
	LooksAtFiles = Behind(laneFiles)
	// SetsUpWatch is LooksAtFiles for a watch.
	SetsUpWatch = LooksAtFiles.And(Shared(laneWatches))
	// SeenByWatches requests have effects that a watch before them is to see.
	SeenByWatches = BehindAll(laneWatches)
)
