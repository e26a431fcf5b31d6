package rpc

import (
	"context"
	"errors"
)

// A Connection carries whole messages in both directions. It knows nothing of JSON.
type Connection interface {
	// Read returns the next message, which stays valid until the next Read. It
	// returns io.EOF at an orderly end, ErrTooLarge after a message over the limit,
	// and the context's error when ctx ends. One caller at a time.
	Read(ctx context.Context) ([]byte, error)
	// Write sends one message and does not keep it. It is safe for concurrent use
	// and unblocked by Close.
	Write(ctx context.Context, msg []byte) error
	// Close unblocks Read and Write and is safe to call again.
	Close() error
}

// A FaultCloser is a Connection that can tell the other end why it closes.
type FaultCloser interface {
	// CloseFault closes like Close, saying code (RFC 6455, section 7.4) and reason.
	CloseFault(code int, reason string) error
}

// A TryWriter is a Connection that can tell what may be written at once from what may
// have to wait.
type TryWriter interface {
	// TryWrite sends as much of msg as can be sent without waiting. The rest, which may
	// be all of it, is sent by finish, which may wait as Write does; finish is nil when
	// there is none, else it must be called, and msg not be changed until it returns.
	TryWrite(msg []byte) (finish func() error, err error)
}

// Close codes of RFC 6455 that faults map to.
const (
	CloseGoingAway       = 1001
	ClosePolicyViolation = 1008
	CloseTooLarge        = 1009
)

var (
	// ErrTooLarge is returned by Read for a message over the connection's limit. The
	// connection cannot be read any further.
	ErrTooLarge = errors.New("message exceeds the size limit")
	// ErrClosed is returned by what needs a connection that has ended.
	ErrClosed = errors.New("connection closed")
)

// closeFault closes c, with the reason where c can tell it.
func closeFault(c Connection, code int, reason string) error {
	if f, ok := c.(FaultCloser); ok {
		return f.CloseFault(code, reason)
	}
	return c.Close()
}
