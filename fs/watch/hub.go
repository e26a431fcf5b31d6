package watch

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ID is a watched directory. The same directory has the same ID, whatever path led
// to it.
type ID int64

// Op is what happened to a name in a directory, or to the directory itself.
type Op int

const (
	// Create: the name appeared, also by a rename.
	Create Op = iota
	// Modify: content or attributes changed. With an empty name, those of the
	// directory itself.
	Modify
	// Remove: the name disappeared, also by a rename. With an empty name, the
	// directory itself was removed or moved: its ID tells nothing certain any more.
	Remove
	// gone: the system watches the directory no more.
	gone
)

// Event is what happened in a directory.
type Event struct {
	ID    ID
	Name  string
	Op    Op
	IsDir bool // the name is a directory's, where the system says so
	Moved bool // a Remove that may have been a rename
	// Closed is a Modify that says that a file which was open for writing is not any more.
	// Only hubs of NewClosingHub tell.
	Closed bool
}

// ErrLimit is the error for what the system has no room to watch.
var ErrLimit = errors.New("the system's limit on watches is reached")

// limitError explains which limit that is.
func limitError(setting string, cause error) error {
	return fmt.Errorf("%w (%s): %w", ErrLimit, setting, cause)
}

// backend is the system's way to watch directories.
type backend interface {
	// add watches a directory; with follow, one that path leads to as a link.
	add(path string, follow bool) (ID, error)
	remove(ID)
	// sync returns when the function that newBackend was given has been called with all
	// that has happened before; false if that cannot be known.
	sync() bool
	// close ends the calls of the function that newBackend was given.
	close()
}

// Hub shares the system's watch among Subs.
type Hub struct {
	newBackend func(told func(b backend, events []Event, overflow bool)) (backend, error)

	// mu is held while the system is asked to watch a directory, so that what it then
	// tells finds the Sub that asked.
	mu      sync.Mutex
	backend backend // nil while nobody watches
	subs    map[*Sub]struct{}
	refs    map[ID][]*Sub // those who watch a directory, each once; most have one
}

// NewHub makes a Hub, which holds nothing until it is used.
func NewHub() *Hub { return newHub(newSystemBackend) }

// NewClosingHub makes a Hub that also tells when files that were written are closed: what
// is written through a mapping shows in no other way. Where the system does not tell, it
// is like another.
func NewClosingHub() *Hub { return newHub(newClosingBackend) }

func newHub(newBackend func(func(backend, []Event, bool)) (backend, error)) *Hub {
	return &Hub{newBackend: newBackend, subs: make(map[*Sub]struct{}), refs: make(map[ID][]*Sub)}
}

// Subscribe returns a Sub that watches nothing yet. It keeps at most limit events.
func (h *Hub) Subscribe(limit int) (*Sub, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.backend == nil {
		b, err := h.newBackend(h.dispatch)
		if err != nil {
			return nil, err
		}
		h.backend = b
	}
	s := &Sub{hub: h, limit: limit, ids: make(map[ID]struct{}), wake: make(chan struct{}, 1)}
	h.subs[s] = struct{}{}
	return s, nil
}

// dispatch gives events to those who watch their directories.
func (h *Hub) dispatch(from backend, events []Event, overflow bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from != h.backend {
		return
	}
	for _, e := range events {
		for _, s := range h.refs[e.ID] {
			s.push(e)
		}
		if e.Op == gone {
			for _, s := range h.refs[e.ID] {
				delete(s.ids, e.ID)
			}
			delete(h.refs, e.ID)
		}
	}
	if overflow {
		for s := range h.subs {
			s.lose()
		}
	}
}

// Sub is one who watches.
type Sub struct {
	hub   *Hub
	limit int
	ids   map[ID]struct{} // guarded by hub.mu

	mu     sync.Mutex
	events []Event
	lost   bool
	wake   chan struct{} // holds a token when there is something to take
}

// Add watches a directory; with follow, one that path leads to as a link.
func (s *Sub) Add(path string, follow bool) (ID, error) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, open := h.subs[s]; !open {
		return 0, errors.New("watch is closed")
	}
	id, err := h.backend.add(path, follow)
	if err != nil {
		return 0, err
	}
	if _, watched := s.ids[id]; !watched {
		h.refs[id] = append(h.refs[id], s)
		s.ids[id] = struct{}{}
	}
	return id, nil
}

// Remove ends the watch of a directory.
func (s *Sub) Remove(id ID) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.release(s, id)
}

func (h *Hub) release(s *Sub, id ID) {
	if _, ok := s.ids[id]; !ok {
		return
	}
	delete(s.ids, id)
	left := slices.DeleteFunc(h.refs[id], func(other *Sub) bool { return other == s })
	if len(left) > 0 {
		h.refs[id] = left
		return
	}
	delete(h.refs, id)
	h.backend.remove(id)
}

// Wake receives when there is something to Take.
func (s *Sub) Wake() <-chan struct{} { return s.wake }

// Take returns what happened since the last Take, and whether more did that is lost.
func (s *Sub) Take() (events []Event, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, lost = s.events, s.lost
	s.events, s.lost = nil, false
	return events, lost
}

func (s *Sub) push(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) < s.limit {
		s.events = append(s.events, e)
	} else {
		s.lost = true
	}
	s.signal()
}

func (s *Sub) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	s.signal()
}

func (s *Sub) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends all watches of s. When it was the last Sub, the system's watch ends too.
func (s *Sub) Close() {
	h := s.hub
	h.mu.Lock()
	if _, open := h.subs[s]; !open {
		h.mu.Unlock()
		return
	}
	delete(h.subs, s)
	var last backend
	if len(h.subs) == 0 {
		// The system ends all watches with it, at less cost than one by one.
		last, h.backend = h.backend, nil
		clear(h.refs)
		clear(s.ids)
	}
	for id := range s.ids {
		h.release(s, id)
	}
	h.mu.Unlock()
	if last != nil {
		last.close() // waits for dispatch, hence without the lock
	}
}
