package shell

import (
	"context"
	"time"
)

// Runs is what a client may do. *Shell implements it. It is safe for concurrent use.
// Errors that a client caused are *protocol.NamedError, with the codes of this package.
type Runs interface {
	// Exec starts a command and returns at once; that it could not be started is told by
	// its events.
	Exec(ctx context.Context, r Request) (id string, events Events, err error)
	// GetExec follows a run from a point on, as the only one, for Config.TTL after its end,
	// and if all of its log is kept. Errors: ENOENT, ELOG_TRUNCATED, EEXEC_BUSY.
	GetExec(ctx context.Context, id string, after After) (Events, error)
	// KillExec sends a signal ("" is SIGTERM) to the run's group; a run that has ended
	// is left alone. Errors: ENOENT, EINVAL.
	KillExec(ctx context.Context, id, signal string) error
	// DisposeExec kills the run if it is live and forgets it. An unknown id is no error.
	DisposeExec(ctx context.Context, id string) error
}

// Request says what to run.
type Request struct {
	Command string // for /bin/sh -c
	Cwd     string // as the protocol has paths; "" is the default
	ID      string // "" to have one made
	Env     map[string]string
	Stdin   []byte         // all of its input
	Timeout *time.Duration // nil is the default, 0 for none
	Client  string         // the name of the client, and where it came from: for people
	Peer    string
}

// After is the point to follow a run from: behind an event's number, or the present.
type After struct {
	Seq  uint64 // 0 for the beginning
	Tail bool
}

// Events are those of one run, in their order. One goroutine at a time uses them.
type Events interface {
	// Next returns io.EOF after the exit event, and also when the run was disposed. Being
	// called, it lets the command go on by what it has returned before.
	Next(ctx context.Context) (Event, error)
	// Close stops following; the run goes on by itself.
	Close()
}

// Names of events.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Exit   = "exit"
)

// Event is one of a run.
type Event struct {
	ID   string // of the run
	Seq  uint64 // 1, 2, 3, ...
	Name string
	Data []byte // of stdout and stderr, 64 KiB at most; it belongs to who has got it from Next
	Code int    // of exit
}
