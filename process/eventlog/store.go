package eventlog

import (
	"context"
	"errors"
	"strings"
	"time"
)

// ErrFull is in the error of a Store whose disk has no room.
var ErrFull = errors.New("there is no room for the log")

// A Store keeps logs beyond the life of a server. It is safe for concurrent use; package
// eventlogtest has the tests that every implementation must pass. When a method that
// changes something returns nil, the change survives the death of the process; one that
// returns an error has changed nothing.
type Store interface {
	// Write makes all changes or none, and gives their numbers to new logs. The Store does
	// not keep the events' data.
	Write(ctx context.Context, changes []Change) error
	// List returns logs, those first that began last.
	List(ctx context.Context, q Query) ([]Record, error)
	// LastEnd is the highest Record.End that a log has had.
	LastEnd(ctx context.Context) (int64, error)
	// Read returns events with numbers above after, in order, but for a close: those of at
	// most maxBytes of output, maxEvents at most, and at least one chunk of output if there
	// is one. A negative bound is none. It returns no events when there are none, as of a
	// log that is forgotten.
	Read(ctx context.Context, log int64, after uint64, maxBytes, maxEvents int) ([]Event, error)
	// Recover ends the logs that no server writes any more: a run with an exit of code -1
	// after the events that it has. It is called before all else, when those are all that
	// have no end and were not begun by others that use the Store now; later it ends those
	// of others that have gone since. It returns their numbers.
	Recover(ctx context.Context, at time.Time) (ended []int64, err error)
	// Sweep forgets logs that have ended.
	Sweep(ctx context.Context, keep Keep) error
}

// Origin says what started a command. Ids are told apart by origin.
type Origin int8

const (
	// OriginSession is a process of a session. Several may have one id.
	OriginSession Origin = iota + 1
	// OriginRun is a durable run. Its id finds the newest of its origin.
	OriginRun
)

// Info says what a log is of.
type Info struct {
	Origin    Origin
	ID        string // the client's
	SessionID string // of OriginSession
	Client    string // the name that the client gave itself
	Peer      string // where the client's connection came from
	PID       int
	Argv      []string // cut if it is long
	Cwd       string   // as it was asked for: a file URI of OriginSession
	TTY       bool
	Sandbox   string
	Started   time.Time
}

// Change is what has happened to a log since its last change.
type Change struct {
	Log int64 // 0 for a new log: Store.Write sets it, in the order of changes
	// Info is set in the first one. A run replaces those that have ended and had its id:
	// they are forgotten or, with Hide, hidden.
	Info *Info
	// Events follow what was there, but for output that was not kept: output in order,
	// and then an exit and a close if there are.
	Events []Event
	// First, if set, removes the events with lower numbers.
	First uint64
	// Evicted says that events are missing at the beginning, or will be.
	Evicted bool
	// Bytes is how much output is kept, and Printed how much there was.
	Bytes, Printed int64
	At             time.Time
	// Ended says that there will be no other change.
	Ended bool
	// Forget removes the log. With Hide it is hidden and has ended, its events are removed,
	// and Events and Printed say how it has ended if it was live.
	Forget bool
	Hide   bool
}

// Record is what is known of a log besides its events. Bytes and what follows is set once
// it has ended.
type Record struct {
	Log int64
	Info
	Evicted bool
	Exit    *Exit // nil before the exit, and if the server ended before a process did
	Ended   bool
	End     int64     // rises with each end of a log; 0 before its own
	At      time.Time // of its end
	Last    uint64    // number of its last event
	Bytes   int64     // of output that is kept
	Printed int64     // of output that there was
}

// Query says which logs are listed: those that fit all that is set.
type Query struct {
	Origin   Origin
	Log      *int64    // that one
	Before   *int64    // with lower numbers
	ID       *string   // of that id
	Client   *string   // of clients with that name
	Text     string    // with that text in CommandLine
	Ended    bool      // have ended
	EndAfter *int64    // with a higher Record.End: those that ended first are first
	Since    time.Time // have ended then or later
	Started  time.Time // began then or later
	Live     bool      // have not ended
	Failed   bool      // have ended otherwise than with code 0
	Hidden   bool      // those too that are hidden
	Limit    int
}

// CommandLine is the command with its arguments, with a space between each.
func (i *Info) CommandLine() string { return strings.Join(i.Argv, " ") }

// Keep says which logs that have ended are kept: the newest ends that are within all
// bounds.
type Keep struct {
	Since time.Time // their end
	Logs  int
	Bytes int64 // of output
}
