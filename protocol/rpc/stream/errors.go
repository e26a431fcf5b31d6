package stream

import (
	"errors"

	"github.com/wsd-dev/wsd/protocol"
)

// ErrCancelled is why a stream is closed whose reader wants no more of it.
var ErrCancelled = errors.New("the reader of the stream wants no more")

// CodeProtocol is the code of the error of a stream whose writer breaks the rules.
const CodeProtocol = "EPROTOCOL"

// errorOf is what a notification says, nil for nothing.
func errorOf(e *protocol.NamedError) error {
	if e == nil {
		return nil
	}
	return e
}

// wireError is a *protocol.NamedError with the text that err has, and of others the text.
func wireError(err error) *protocol.NamedError {
	if err == nil {
		return nil
	}
	told := &protocol.NamedError{Message: err.Error()}
	if e, ok := errors.AsType[*protocol.NamedError](err); ok {
		told.Code, told.Path = e.Code, e.Path
	}
	return told
}
