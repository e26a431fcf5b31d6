package fs

import "sync"

// A sharedCheck runs a check for many callers. Callers that wait share the next run, so
// that each gets the answer of a run that began after it had asked, and two runs are
// enough for all.
type sharedCheck struct {
	check func() bool
	turn  chan struct{} // holds a token during a run

	mu   sync.Mutex
	next *verdict // of the next run; nil if nobody waits for it
}

type verdict struct {
	done chan struct{} // closed once ok is set
	ok   bool
}

func newSharedCheck(check func() bool) *sharedCheck {
	return &sharedCheck{check: check, turn: make(chan struct{}, 1)}
}

// ask returns what the check says now.
func (s *sharedCheck) ask() bool {
	s.mu.Lock()
	a := s.next
	if a != nil {
		s.mu.Unlock()
		<-a.done
		return a.ok
	}
	a = &verdict{done: make(chan struct{})}
	s.next = a
	s.mu.Unlock()

	s.turn <- struct{}{}
	s.mu.Lock()
	s.next = nil // later callers need a later run
	s.mu.Unlock()
	defer func() { // whatever the check does
		<-s.turn
		close(a.done)
	}()
	a.ok = s.check()
	return a.ok
}
