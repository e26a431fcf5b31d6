package process

import "sync"

// turn says whose turn it is to tell the client of what is logged of a process: one
// tells at a time, in the order of the log. The publisher has the turn at first; when
// it rests, who logs an event may take it for that one event.
type turn struct {
	due chan struct{} // holds a token when the publisher is to look

	mu     sync.Mutex
	taken  bool   // somebody tells
	missed bool   // something was left for the publisher meanwhile
	after  uint64 // number of the last event told of; valid unless taken
}

func newTurn() turn { return turn{due: make(chan struct{}, 1), taken: true} }

// begin takes the turn for the event with that number, if it is next and nobody tells.
func (t *turn) begin(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken || t.after+1 != seq {
		return false
	}
	t.taken = true
	return true
}

// end gives the turn back. What was not told is the publisher's.
func (t *turn) end(seq uint64, told bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	if told {
		t.after = seq
	}
	if !told || t.missed {
		t.wake()
	}
}

// leave leaves an event that is logged to the publisher.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed = true
	if !t.taken {
		t.wake()
	}
}

// wake is called with mu held.
func (t *turn) wake() {
	select {
	case t.due <- struct{}{}:
	default:
	}
}

// rest ends the publisher's turn. It returns false if something was left since the turn
// or the last rest began: the publisher looks again.
func (t *turn) rest(after uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missed {
		t.missed = false
		return false
	}
	t.taken, t.after = false, after
	return true
}

// take begins the publisher's turn, after the event it returns; false while somebody
// else has it, who wakes the publisher after.
func (t *turn) take() (after uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		t.missed = true
		return 0, false
	}
	t.taken, t.missed = true, false
	return t.after, true
}
