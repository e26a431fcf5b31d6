package client

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os/exec"
	"strconv"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

var (
	// ErrTransportClosed is in the error of everything that the end of a connection
	// ended.
	ErrTransportClosed = errors.New("transport closed")
	// ErrMayHaveRun is in the error of a call whose answer was lost with the
	// connection.
	ErrMayHaveRun = errors.New("the call may have run")
	// ErrClosed is returned by a Client after Close. It is ErrTransportClosed too.
	ErrClosed = fmt.Errorf("client closed: %w", ErrTransportClosed)
	// ErrSessionLost means that the server no longer knows the session, and that its
	// processes are gone.
	ErrSessionLost = errors.New("the server no longer has the session")
	// ErrOutputLost means that a process printed more than the server retains while
	// its output could not be delivered.
	ErrOutputLost = errors.New("process output is no longer retained")
	// ErrUnknownProcess means that the server does not have the process, or no longer.
	ErrUnknownProcess = errors.New("unknown process")
)

func sessionLost(id string) error { return fmt.Errorf("%w %s", ErrSessionLost, id) }

// lostCall is a call that ended with its connection, unanswered.
func lostCall(method string, cause error) error {
	return fmt.Errorf("%s: %w before the answer, %w: %w", method, ErrTransportClosed, ErrMayHaveRun, cause)
}

// lostStream makes the end of the connection that ended a stream ErrTransportClosed, too.
func lostStream(err error) error {
	if isClosed(err) {
		return fmt.Errorf("%w: %w", ErrTransportClosed, err)
	}
	return err
}

// isClosed tells the end of the connection from other failures of a call.
func isClosed(err error) bool { return errors.Is(err, rpc.ErrClosed) }

// Error is a failure that the server answered with. On file operations it is wrapped
// in an *fs.PathError. errors.Is tells fs.ErrNotExist, fs.ErrExist and
// fs.ErrPermission of it.
type Error struct {
	Method string
	Code   protocol.Code
	// Message is the server's text.
	Message string
	// Kind is the kind of a failed process/start, as in protocol.SpawnErrorData, else "".
	Kind string
	// Name and Path are what sync/* and shell/* say of a failure, as in
	// protocol.NamedData: ENOENT, EUNKNOWN_HASH, EEXEC_BUSY and so on, else "".
	Name, Path string
}

func (e *Error) Error() string { return e.Message }

// Errno is the system's number for the failure, 0 when the message gives none.
// Numbers are those of the server's system.
func (e *Error) Errno() int {
	text, ok := strings.CutSuffix(e.Message, ")")
	if !ok {
		return 0
	}
	i := strings.LastIndex(text, "(os error ")
	if i < 0 {
		return 0
	}
	n, err := strconv.Atoi(text[i+len("(os error "):])
	if err != nil {
		return 0
	}
	return n
}

// Numbers of errno(3) that are the same on Linux and macOS.
const (
	errnoPerm   = 1
	errnoNoEnt  = 2
	errnoAccess = 13
	errnoExist  = 17
)

// Is maps what the server said to the errors that Go programs test for. exec.ErrNotFound
// is a program, or a directory to run it in, that is missing.
func (e *Error) Is(target error) bool {
	switch target {
	case iofs.ErrNotExist:
		return e.Code == protocol.CodeNotFound || e.Kind == protocol.KindSpawnNotFound || e.Name == "ENOENT" || e.Errno() == errnoNoEnt
	case iofs.ErrExist:
		return e.Errno() == errnoExist
	case iofs.ErrPermission:
		return e.Kind == protocol.KindSpawnPermissionDenied || e.Errno() == errnoAccess || e.Errno() == errnoPerm
	case exec.ErrNotFound:
		return e.Kind == protocol.KindSpawnNotFound
	case errors.ErrUnsupported:
		return e.Code == protocol.CodeMethodNotFound
	}
	return false
}

// PreconditionError means that a conditional write found another file than it was
// told to expect, and wrote nothing.
type PreconditionError struct {
	Path string
	// CurrentHash is the file's hash now, "" when there is no file.
	CurrentHash string
}

func (e *PreconditionError) Error() string {
	if e.CurrentHash == "" {
		return "write " + e.Path + ": the file does not exist"
	}
	return "write " + e.Path + ": the file is another, its hash is " + e.CurrentHash
}

// callError turns what a call of the Peer returned into what callers see.
func callError(method string, err error) error {
	switch {
	case err == nil:
		return nil
	case isClosed(err):
		return lostCall(method, err)
	}
	failure, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return fmt.Errorf("%s: %w", method, err)
	}
	out := &Error{Method: method, Code: failure.Code, Message: failure.Message}
	data, ok := failure.Data.(protocol.RawData)
	if !ok || len(data) == 0 || data[0] != '{' {
		return out
	}
	if failure.Code == protocol.CodePreconditionFailed {
		var current protocol.PreconditionData
		if wire.Unmarshal(data, &current) == nil {
			precondition := new(PreconditionError)
			if current.CurrentHash != nil {
				precondition.CurrentHash = *current.CurrentHash
			}
			return precondition
		}
		return out
	}
	if failure.Code == protocol.CodeNamed {
		var named protocol.NamedData
		if wire.Unmarshal(data, &named) == nil {
			out.Name, out.Path = named.Code, named.Path
		}
		return out
	}
	var spawn protocol.SpawnErrorData
	if wire.Unmarshal(data, &spawn) == nil {
		out.Kind = spawn.Kind
	}
	return out
}

// pathError says which file a failure is about.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if precondition, ok := errors.AsType[*PreconditionError](err); ok {
		precondition.Path = path
		return precondition
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return &iofs.PathError{Op: op, Path: path, Err: err}
	}
	return err
}

// unsupportedError is what a server does not announce.
type unsupportedError struct{ capability string }

func (e *unsupportedError) Error() string {
	return "the server does not offer the capability " + e.capability
}

func (e *unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }
