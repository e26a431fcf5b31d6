package process

import (
	"io"
	"os"
	"syscall"
	"time"
)

// A Spawner starts children.
type Spawner interface {
	// Start returns once the program runs, or a *SpawnError. Nothing is left of a
	// child that was not returned. The Command's Files stay the caller's.
	Start(cmd Command) (*Child, error)
	// Close is called when no child of the Spawner lives any more.
	Close() error
}

// Command is what a Spawner starts: a program that has been found already.
type Command struct {
	Path string   // relative to Dir unless absolute
	Argv []string // with argv[0]
	Env  []string // the whole environment, as name=value
	Dir  string   // absolute
	// Terminal makes stdin, stdout and stderr one terminal of that size; else stdout
	// and stderr are pipes.
	Terminal *Size
	// PipeStdin makes stdin a pipe; else it is the null device. Ignored with Terminal.
	PipeStdin bool
	// BusyPipe is what a pipe grows to of a child that prints much, in bytes: it is how
	// much such a child prints that nobody reads. 0 means 1 MiB.
	BusyPipe int
	// Files become descriptors 3 and up.
	Files []*os.File
	// Attr, if set, changes the attributes of the fork, as in Confined.
	Attr func(*syscall.SysProcAttr)
	// Namespace is the view of the file system that the child has; nil is the host's.
	Namespace *Namespace
}

// Size is that of a terminal, in characters.
type Size struct {
	Rows, Cols uint16
}

// Child is a running child: the leader of a session and of a process group.
type Child struct {
	PID     int
	Outputs []Output // of stdout and stderr, together or each, or of the terminal
	Input   Input    // nil when nothing can be written
	Process Process
}

// Output is the reading end of what a child prints. One goroutine calls Read and Buffered;
// SetDeadline and Close may be called beside it.
type Output interface {
	// Read waits for a chunk, which is the caller's from then on. It returns io.EOF
	// when no more will come, os.ErrDeadlineExceeded at the deadline even if there
	// is something to read, os.ErrClosed after Close.
	//
	// An Output of more than one stream returns first the chunk of the stream that has had
	// something to read for longest, as far as the system tells.
	Read() (Chunk, error)
	// SetDeadline sets when Read gives up; the zero time means never.
	SetDeadline(t time.Time) error
	// Buffered is how much the child has written that was not read yet, false if there may
	// be more of it. The next Reads return that much before what is written later.
	Buffered() (int, bool)
	Close() error
}

// Chunk is a piece of what a child prints.
type Chunk struct {
	Stream string // one of protocol.Stream*
	Data   []byte
}

// Input is the writing end of a child's stdin.
type Input interface {
	// Write waits until all of p is written; Close ends that wait.
	io.WriteCloser
	// TryWrite writes what can be written of p without waiting.
	TryWrite(p []byte) (int, error)
	// EOF has the child see the end of its input: on a pipe for good, on a terminal
	// once, by the character that stands for it. Nothing is written to a pipe after.
	EOF() error
}

// Process is the child as the system knows it.
type Process interface {
	// Wait returns how the child ended, once. It waits for the child itself, not for
	// its descendants.
	Wait() WaitStatus
	// Signal sends a signal to the child's group, or to the child alone. It returns
	// os.ErrProcessDone when nobody is there to get it.
	Signal(sig syscall.Signal, group bool) error
	// Resize sets the size of the terminal.
	Resize(size Size) error
	// Close releases what is left after Wait; no signal reaches the group any more.
	Close() error
}

// WaitStatus is how a child ended.
type WaitStatus struct {
	// Lost is true when somebody else has collected the status.
	Lost   bool
	Code   int            // exit status, when Signal is 0
	Signal syscall.Signal // that ended it, or 0
}

// ExitCode returns the code that the wires give an end: the status, 128 and the number of
// the signal, or -1 when it is lost. The signal of a child with a terminal does not show in
// it: the code is 1.
func (s WaitStatus) ExitCode(tty bool) int {
	switch {
	case s.Lost:
		return -1
	case s.Signal == 0:
		return s.Code
	case tty:
		return 1
	default:
		return 128 + int(s.Signal)
	}
}

// opExec is the Op of a SpawnError that exec returned: the program is to blame.
const opExec = "exec"

// SpawnError is why a program could not be started.
type SpawnError struct {
	// What failed, such as "exec" or "open terminal".
	Op string
	// Errno is the system's reason.
	Errno syscall.Errno
}

func (e *SpawnError) Error() string { return e.Op + ": " + systemText(e.Errno) }

func (e *SpawnError) Unwrap() error { return e.Errno }
