package arq

import (
	"errors"
	"fmt"
	"time"
)

// Faults of the program, or of nobody.
var (
	// ErrBusy: a message is being cut already; wait for Writable.
	ErrBusy = errors.New("another message is being sent")
	// ErrSize: a message is empty, or longer than MaxMessage.
	ErrSize = errors.New("message of impossible size")
	// ErrClosed ends a stream that this end has reset.
	ErrClosed = errors.New("stream closed")
	// ErrDetached ends a stream of the codex profile that lost its socket.
	ErrDetached = errors.New("socket lost")
	// ErrSeqEnd ends a stream whose segment numbers are used up, in either direction.
	ErrSeqEnd = errors.New("segment numbers are used up")
)

// Reasons that a stream gives in a reset of its own.
const (
	ReasonProtocol = "noise_relay_protocol_error"
	ReasonGaveUp   = "gave_up"
	ReasonSeqEnd   = "sequence_end"
	ReasonInternal = "internal_error"
)

// A ProtocolError is the peer's fault, or that of somebody in between.
type ProtocolError struct {
	Problem string
	Cursors Cursors
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("peer broke the protocol: %s (%s)", e.Problem, e.Cursors)
}

// A ResetError says that the other side ended the stream, or somebody in between. Its
// reason is not to be trusted.
type ResetError struct{ Reason string }

func (e *ResetError) Error() string { return fmt.Sprintf("peer reset the stream: %q", e.Reason) }

// A GiveUpError ends a stream that waited in vain.
type GiveUpError struct {
	// For is what it waited for, After how long.
	For     string
	After   time.Duration
	Cursors Cursors
}

func (e *GiveUpError) Error() string {
	return fmt.Sprintf("gave up after %s without %s (%s)", e.After, e.For, e.Cursors)
}

// Cursors say how far the two directions of a stream have come. Each is the number of
// the first segment of which it is not true yet.
type Cursors struct {
	// Sent was sent by this end, Acked was acknowledged by the peer, Credit is
	// welcome there.
	Sent, Acked, Credit uint64
	// Received has come from the peer, in order, and was opened.
	Received uint64
}

func (c Cursors) String() string {
	return fmt.Sprintf("sent to %d, acknowledged to %d, welcome to %d, received to %d", c.Sent, c.Acked, c.Credit, c.Received)
}
