package shell

import (
	"context"
	"errors"
	"time"
)

// ErrNoRun is returned by Store.Find.
var ErrNoRun = errors.New("no such run")

// ErrFull is in the error of a Store whose disk has no room.
var ErrFull = errors.New("there is no room for the log")

// A Store keeps runs and their events. It is safe for concurrent use; package shelltest
// has the tests that every implementation must pass. When a method that changes something
// returns nil, the change survives the death of the process; one that returns an error has
// changed nothing.
type Store interface {
	// Begin records that a run with that id begins, and forgets an ended one that had
	// it. The number that it returns is no other run's, ever, and above those of the runs
	// that are there.
	Begin(ctx context.Context, id string, about About, at time.Time) (run int64, err error)
	// Append adds to a run. The Store does not keep the events' data.
	Append(ctx context.Context, run int64, b *Batch) error
	// Find returns the run that has the id. The error is ErrNoRun.
	Find(ctx context.Context, id string) (Record, error)
	// Ended returns runs that have ended, since then or later, those first that began last,
	// and n at most.
	Ended(ctx context.Context, since time.Time, n int) ([]Record, error)
	// Read returns events with numbers above after, in order and without a gap: those of
	// at most maxBytes of output, MaxPageEvents at most, and at least one if there is one.
	// It returns none when there are none, as of a run that is forgotten.
	Read(ctx context.Context, run int64, after uint64, maxBytes int) ([]Event, error)
	// Forget removes a run and its events. A run that is not there is no error.
	Forget(ctx context.Context, run int64) error
	// Recover ends the runs that have no end: with an exit -1 after the events that they
	// have. It is called before all else, and returns how many there were.
	Recover(ctx context.Context, at time.Time) (int, error)
	// Sweep forgets runs that have ended.
	Sweep(ctx context.Context, keep Keep) error
}

// About is what people are told of a run.
type About struct {
	Command, Cwd string // as they were asked for; cut if they are long
}

// Batch is what one Append adds.
type Batch struct {
	At time.Time
	// Events follow those that were appended before.
	Events []Event
	// Evicted says that the log has become longer than is kept: events are missing at its
	// beginning, or will be.
	Evicted bool
	// First, if set, removes the events with lower numbers.
	First uint64
	// End, if set, ends the run.
	End *End
}

// End is how a run has ended.
type End struct {
	Code  int
	Last  uint64 // number of its exit event
	Bytes int64  // of its output that is in the log
}

// Record is what is known of a run besides its events.
type Record struct {
	Run     int64
	ID      string
	About   About
	Started time.Time
	Evicted bool
	Ended   bool // what follows is set
	At      time.Time
	End     End
}

// Keep says which runs that have ended are kept: the newest that are within all bounds.
type Keep struct {
	Since time.Time // their end
	Runs  int
	Bytes int64 // of output
}
