package stream

import (
	"errors"

	"github.com/wsd-dev/wsd/protocol"
)

// ErrCancelled is why a stream is closed whose reader wants no more of it.
var ErrCancelled = errors.New("the reader of the stream wants no more")

// CodeProtocol is the code of the error of a stream whose writer breaks the rules.
const CodeProtocol = "EPROTOCOL"

// Error is what the other end says of a stream that ended early.
type Error struct {
	Code    string // "" for none
	Message string
	Path    string // "" for none
}

func (e *Error) Error() string { return e.Message }

// errorOf is what a notification says, nil for nothing.
func errorOf(e *protocol.StreamError) error {
	if e == nil {
		return nil
	}
	return &Error{Code: e.Code, Message: e.Message, Path: e.Path}
}

// wireError is an *Error as it is, and of others the text.
func wireError(err error) *protocol.StreamError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &protocol.StreamError{Code: e.Code, Message: err.Error(), Path: e.Path}
	}
	return &protocol.StreamError{Message: err.Error()}
}
