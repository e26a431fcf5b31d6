package rpc

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/protocol/handoff"
)

// A Connection carries whole messages in both directions. It knows nothing of JSON.
type Connection interface {
	// Read returns the next message, which stays valid until the next Read. It
	// returns io.EOF at an orderly end, ErrTooLarge after a message over the limit,
	// and the context's error when ctx ends. One caller at a time.
	Read(ctx context.Context) ([]byte, error)
	// Write sends one message and does not keep it. When ctx has ended before, nothing is
	// sent. It is safe for concurrent use and unblocked by Close.
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

// A Metered connection charges an Account for the messages that it receives, as their
// bytes arrive, and heeds its MaxMessage. Meter is called before anything is read.
type Metered interface {
	Meter(account *Account)
}

// A Reporter is a Connection that tells an Account, by Sent, how far it has come with
// the messages that it writes. ReportTo is called before anything is written.
type Reporter interface {
	ReportTo(account *Account)
}

// An Awaiter is a Connection whose messages a Peer can take where they arrive, on the
// goroutine that has received them, so that no other has to be woken for them.
type Awaiter interface {
	// Await is Read as far as that goes without waiting. When there is nothing yet it
	// returns nil and nil, and takes is called once with what comes next, the end included.
	// Until then there is neither another Await nor a Read.
	Await(takes Taker) ([]byte, error)
	// Forget takes back what Await was told. It returns false when that is being called
	// or has been, or there is nothing.
	Forget() bool
}

// A Taker takes a message, or the end of all. The goroutine that it is called on has others
// to receive for: it does not wait, unless it has handed off the goroutine's turn before. At
// the end, err, there is no turn.
type Taker func(msg []byte, err error, turn *handoff.Turn)

// Close codes of RFC 6455 that faults map to.
const (
	CloseGoingAway       = 1001
	ClosePolicyViolation = 1008
	CloseTooLarge        = 1009
	CloseTryAgainLater   = 1013
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
