package capnweb

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// An Error is an error on the wire: what a service returns to tell a peer something, and
// what the peer told. JavaScript keeps Name only if it is that of a built-in class; Code,
// which travels as the property "code", tells errors apart.
type Error struct {
	Name    string // "" is "Error"
	Message string
	Code    string // "" for none
	Stack   string // as received; never sent
	Props   Object // further properties; cause and errors travel here
}

// Errorf makes an Error with a code.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Name != "" && e.Name != "Error" {
		b.WriteString(e.Name + ": ")
	}
	b.WriteString(e.Message)
	if e.Code != "" {
		b.WriteString(" (" + e.Code + ")")
	}
	return b.String()
}

// Is reports whether target is an Error with the same code, so that
// errors.Is(err, &capnweb.Error{Code: "ENOENT"}) asks for the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error) //nolint:errorlint // a target is not unwrapped
	return ok && t.Code != "" && t.Code == e.Code
}

// Code returns the code of the Error in err's chain, "" if there is none.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Thrown is a value that is no error and was thrown all the same.
type Thrown struct{ Value any }

func (t *Thrown) Error() string { return fmt.Sprintf("thrown: %v", t.Value) }

// A ProtocolError ends a session whose peer broke the protocol or a limit.
type ProtocolError struct {
	Name    string // of the JavaScript class; "" is "Error"
	Message string
}

func (e *ProtocolError) Error() string { return "capnweb: " + e.Message }

func protocolErrorf(name, format string, args ...any) *ProtocolError {
	return &ProtocolError{name, fmt.Sprintf(format, args...)}
}

// An AbortError ends a session that the peer has aborted.
type AbortError struct{ Reason error }

func (e *AbortError) Error() string { return "capnweb: aborted by the peer: " + e.Reason.Error() }
func (e *AbortError) Unwrap() error { return e.Reason }

var (
	// ErrClosed ends a session by Close, and what still needed it.
	ErrClosed = errors.New("capnweb: session closed")
	// ErrReleased is returned for a Stub that was released, or a stream that has been
	// given to somebody else.
	ErrReleased = errors.New("capnweb: used after its release")
	// ErrBadMessage is what a Transport's Read wraps when the peer sent something that is
	// no text message. The session aborts.
	ErrBadMessage = errors.New("not a text message")
	// ErrTooLarge ends the session of a peer that sent more than MaxMessageBytes.
	ErrTooLarge = protocolErrorf("TypeError", "Incoming message exceeds maximum size of %d bytes.", MaxMessageBytes)
	// ErrNotConsumed cancels a stream that its reader let go unread.
	ErrNotConsumed = &Error{Message: "ReadableStream RPC stub was disposed without being consumed"}
	// ErrNotClosed is what the reader of a stream gets whose writer let go without closing.
	ErrNotClosed = &Error{Message: "WritableStream RPC stub was disposed without calling close()"}
)

// Codes of the errors that come of this package itself.
const (
	CodeInvalid  = "EINVAL"    // arguments that do not fit the method
	CodeLimit    = "ELIMIT"    // a limit of limits.go
	CodeProtocol = "EPROTOCOL" // not over this transport
)

func typeErrorf(format string, args ...any) *Error {
	return &Error{Name: "TypeError", Message: fmt.Sprintf(format, args...)}
}

func limitErrorf(format string, args ...any) *Error {
	return &Error{Name: "RangeError", Message: fmt.Sprintf(format, args...), Code: CodeLimit}
}

// wireError is what peers are told of err. What is no Error of ours may hold what is not
// for them, so it is not told; known reports whether it was.
func wireError(err error, mapError func(error) *Error) (v any, known bool) {
	if t, ok := errors.AsType[*Thrown](err); ok {
		return t.Value, true
	}
	if mapError != nil {
		if e := mapError(err); e != nil {
			return e, true
		}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e, true
	}
	if p, ok := errors.AsType[*ProtocolError](err); ok {
		return &Error{Name: p.Name, Message: p.Message}, true
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Message: "canceled"}, true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Message: "timed out"}, true
	}
	if errors.Is(err, ErrReleased) {
		return &Error{Message: "used after its release"}, true
	}
	return &Error{Message: "internal error"}, false
}
