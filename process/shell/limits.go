package shell

import "time"

const (
	// DefaultMaxLogBytes is how much output of a run is kept, the newest; see
	// [Config.MaxLogBytes].
	DefaultMaxLogBytes = 16 << 20
	// maxLogEvents is how many events of a run are kept. More, of a command that writes
	// single bytes, are too much as MaxLogBytes are.
	maxLogEvents = 1 << 20
	// logParts is in how many parts a log is removed from its beginning: what is kept is
	// more than MaxLogBytes by one of them at most.
	logParts = 16
	// DefaultTTL is how long GetExec finds a run that has ended.
	DefaultTTL = 5 * time.Minute

	// DefaultMaxRuns is how many runs are live at once. More are EEXEC_BUSY.
	DefaultMaxRuns = 256
	// maxLingering is how many runs that have ended may have descendants that keep their
	// pipes open. Those of more find that nobody reads them.
	maxLingering = 256
	// maxIDBytes, maxStdinBytes and maxStdinTotal (of all live runs) bound requests: more
	// are EINVAL, and EEXEC_BUSY for the last.
	maxIDBytes    = 256
	maxStdinBytes = 16 << 20
	maxStdinTotal = 64 << 20

	// maxListed is how many runs that have ended List returns, besides those that are live.
	maxListed = 1024
	// maxAboutBytes is where a command and a directory are cut that are kept to be listed.
	maxAboutBytes = 1 << 10

	// DefaultTimeout ends a run whose request says nothing of time.
	DefaultTimeout = 320 * time.Second
	// killDelay is the time between the SIGTERM and the SIGKILL of a deadline.
	killDelay = 5 * time.Second
	// DefaultGrace is the time between the SIGTERM and the SIGKILL of Close.
	DefaultGrace = 2 * time.Second
	// closeTime bounds how long Close waits for children that were killed: one may be
	// stuck in the kernel.
	closeTime = 10 * time.Second

	// settleTime is how long the end of a run waits for Config.Settle.
	settleTime = 2 * time.Second

	// windowBytes and windowEvents bound what was read of a run and not taken by its
	// follower: at more its pipes are not read, until half of it was taken.
	windowBytes  = 256 << 10
	windowEvents = 1024
	// busyPipeBytes is the size of a pipe of a command that prints much. With windowBytes
	// it is how much a command prints that nobody reads.
	busyPipeBytes = 256 << 10
	// gatherBytes is the most that is put together to one event while others are written.
	gatherBytes = 32 << 10
	// pageBytes is how much a follower reads from the log at a time. maxPageBytes bounds the
	// pages of all followers together: beyond it a follower reads single events, each when it
	// is asked for. So the number of followers needs no bound but that of the streams.
	pageBytes    = 256 << 10
	maxPageBytes = 32 << 20
	// maxPageEvents is how many events a follower reads from the log at a time.
	maxPageEvents = 1024
)
