package handoff

import "sync/atomic"

// A Turn is the right of one goroutine to read. It is held until the handler of a message
// that the goroutine has read hands it off; then another goroutine reads, with a Turn of its
// own.
type Turn struct {
	readOn func()       // starts that goroutine; nil if its owner does
	state  atomic.Int64 // the number of the message that is handled, or passed
}

// passed is the state of a Turn that has been handed off.
const passed = -1

// NewTurn returns the Turn of a goroutine that reads for others, too. readOn starts another
// one. A nil readOn is for a goroutine that reads for its owner alone, which knows when the
// Turn is handed off.
func NewTurn(readOn func()) *Turn { return &Turn{readOn: readOn} }

// Held reports whether the goroutine still has its Turn.
func (t *Turn) Held() bool { return t.state.Load() != passed }

// Shared reports whether the goroutine reads for others, too: handlers must not block it.
func (t *Turn) Shared() bool { return t.readOn != nil }

// Message says that the goroutine, which holds its Turn, handles a message.
func (t *Turn) Message() Message { return Message{t, t.state.Load()} }

// A Message is one that the holder of a Turn handles.
type Message struct {
	turn   *Turn
	number int64
}

// HandOff passes the Turn to another goroutine and reports whether it did: the message is
// still handled, and nobody has called HandOff before. It is safe for concurrent use.
func (m Message) HandOff() bool {
	if !m.turn.state.CompareAndSwap(m.number, passed) {
		return false
	}
	if m.turn.readOn != nil {
		m.turn.readOn()
	}
	return true
}

// Handled says that the handler has returned. HandOff does nothing from then on.
func (m Message) Handled() { m.turn.state.CompareAndSwap(m.number, m.number+1) }
