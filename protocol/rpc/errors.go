package rpc

import (
	"errors"

	"github.com/wsd-dev/wsd/protocol"
)

// WireError is err as the other end is told: a *protocol.Error found in it, else
// CodeInternal with its text. It is nil for nil.
func WireError(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*protocol.Error](err); ok && failure.Code != 0 {
		return failure
	}
	return &protocol.Error{Code: protocol.CodeInternal, Message: err.Error()}
}
