package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// An entry is one instance of a stream, from its handshake on. An id may be used again
// while something of the instance before is under way; entries are told apart by
// being different ones.
type entry struct {
	id       string
	instance uint64
	profile  frame.Profile
	// cancel ends what a pending entry waits for.
	cancel context.CancelCauseFunc
	// stream is nil while the entry is pending.
	stream *relay.Stream
	// silent is since when the harness has not been heard of; zero if it has.
	silent time.Time
	// evicted: its slot is another's.
	evicted bool
	// guarded: only a known key may come in.
	guarded bool
}

// Why a pending handshake is given up.
var (
	errTurn     = errors.New("a frame came before its turn")
	errReset    = errors.New("reset by the harness")
	errLost     = errors.New("connection to the relay lost")
	errShutdown = errors.New("the executor ends")
)

// A table holds the streams by their ids. It outlives the sockets.
type table struct {
	mu      sync.Mutex
	entries map[string]*entry
	// slots are taken by a stream from its handshake until it has ended and is not
	// served any more; handshakes are those under way.
	slots, handshakes int
	instances         uint64
	// socket is what new streams write to; nil between two.
	socket *socket
	// idle is made when nobody comes in any more, and closed when all slots are free.
	idle chan struct{}
	// known are keys that were let in.
	known map[seal.Fingerprint]struct{}
}

// get returns what has this id, for which a frame came, and its stream: nil and nil for
// nothing, no stream for a pending one.
func (t *table) get(id string) (e *entry, stream *relay.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e = t.entries[id]; e != nil {
		stream = e.stream
		e.silent = time.Time{}
	}
	return e, stream
}

// begin makes a pending entry for a handshake over s; nil if there is no room for one
// or it is not time for one. The caller must have seen that the id is free; only the
// reader of s makes entries. When it is full, the stream that was silent for longest
// makes room, if there is one, and is returned to be reset.
func (t *table) begin(s *socket, id string, profile frame.Profile, cancel context.CancelCauseFunc) (e *entry, evicted *relay.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	guarded := s.gate.closed(now)
	if t.idle != nil || t.handshakes >= MaxPending || guarded && !s.gate.look(now) {
		return nil, nil
	}
	if t.slots >= MaxStreams {
		if evicted = t.evict(); evicted == nil {
			return nil, nil
		}
	}
	t.slots++
	t.handshakes++
	t.instances++
	e = &entry{id: id, instance: t.instances, profile: profile, cancel: cancel, guarded: guarded}
	t.entries[id] = e
	return e, evicted
}

// evict takes the stream out that was silent for longest, and gives its slot back; nil
// if every harness was heard of lately.
func (t *table) evict() *relay.Stream {
	var victim *entry
	for _, e := range t.entries {
		if !e.silent.IsZero() && (victim == nil || e.silent.Before(victim.silent)) {
			victim = e
		}
	}
	if victim == nil {
		return nil
	}
	delete(t.entries, victim.id)
	victim.evicted = true
	t.slots--
	return victim.stream
}

// silent notes that the harness of e has not been heard of for a while.
func (t *table) silent(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.silent = time.Now()
}

// drop takes a pending entry out, charges the failure if it is one, and reports
// whether it was still there. Whoever gets true answers the harness.
func (t *table) drop(s *socket, e *entry, why error, charge bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[e.id] != e || e.stream != nil {
		return false
	}
	delete(t.entries, e.id)
	if charge {
		s.gate.charge(time.Now())
	}
	e.cancel(why)
	return true
}

// install makes a pending entry a stream; false if it is none any more, or its socket
// is not the current one. It must be there before the harness is told.
func (t *table) install(s *socket, e *entry, stream func() *relay.Stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[e.id] != e || t.socket != s || t.idle != nil {
		return false
	}
	e.stream = stream()
	return true
}

// remove takes out a stream that has ended.
func (t *table) remove(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[e.id] == e {
		delete(t.entries, e.id)
	}
}

// handshakeOver says that nothing of a handshake is under way, and whether its entry
// became a stream, which keeps its slot.
func (t *table) handshakeOver(keep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handshakes--
	if !keep {
		t.free()
	}
}

// release gives a stream's slot back.
func (t *table) release(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !e.evicted {
		t.free()
	}
}

func (t *table) free() {
	t.slots--
	if t.idle != nil && t.slots == 0 {
		close(t.idle)
	}
}

// attach makes s the current socket and returns the streams that go on over it.
func (t *table) attach(s *socket) []*relay.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.socket = s
	return t.streams()
}

// detach says that there is no socket: what is pending is given up, and what is not is
// returned.
func (t *table) detach() []*relay.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.socket = nil
	for id, e := range t.entries {
		if e.stream == nil {
			delete(t.entries, id)
			e.cancel(errLost)
		}
	}
	return t.streams()
}

// close lets nobody in any more. What it returns is closed when all have gone.
func (t *table) close() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle != nil {
		return t.idle
	}
	t.idle = make(chan struct{})
	if t.slots == 0 {
		close(t.idle)
	}
	for id, e := range t.entries {
		if e.stream == nil {
			delete(t.entries, id)
			e.cancel(errShutdown)
		}
	}
	return t.idle
}

func (t *table) streams() []*relay.Stream {
	list := make([]*relay.Stream, 0, len(t.entries))
	for _, e := range t.entries {
		if e.stream != nil {
			list = append(list, e.stream)
		}
	}
	return list
}
