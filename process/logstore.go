package process

import "errors"

// ErrLogClosed is returned by Append after a KindClosed event.
var ErrLogClosed = errors.New("append to a log that has its last event")

// A LogStore keeps the numbered events of one process. It is safe for concurrent
// use. Package logtest has the tests that every implementation must pass.
type LogStore interface {
	// Append adds an event and returns its number: 1 for the first, then one more
	// each. It takes over e.Data, which the caller leaves alone from then on. Output may evict
	// older output; exit and close are kept for good.
	Append(e Event) (uint64, error)
	// Read appends to dst the retained events with numbers above after, in order. It
	// stops before a chunk that would take the bytes of output over maxBytes, except
	// that the first chunk is always included; a negative maxBytes is no bound. The
	// Page is one state of the log.
	Read(dst []Event, after uint64, maxBytes int) (Page, error)
	// Close releases what the store holds in this program. Nothing is called after.
	Close() error
}

// Page is what LogStore.Read found.
type Page struct {
	Events []Event
	// Next is the number that the next event will have.
	Next uint64
	// Exit is that of the KindExited event, nil before there is one, whether or not
	// it is among Events.
	Exit *Exit
	// Closed is true once there is a KindClosed event.
	Closed bool
}
