package shell

import (
	"context"
	"sync"
	"time"
)

// A settler settles for runs that have ended: once for all that wait while it settles. It
// goes on when none of them waits any more.
type settler struct {
	settle func(ctx context.Context, since time.Time) error // nil if there is nothing to do
	failed func(error)

	mu      sync.Mutex
	running bool
	next    chan struct{} // closed after a call of settle that has not begun; nil if nobody waits for one
	since   time.Time     // the earliest beginning of the runs that wait for it
}

// ask returns a channel that is closed when a settle has ended that begins later, for a run
// that began at since. It uses start for a goroutine.
func (s *settler) ask(ctx context.Context, since time.Time, start func(func())) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next, s.since = make(chan struct{}), since
	}
	if since.Before(s.since) {
		s.since = since
	}
	if !s.running {
		s.running = true
		start(func() { s.run(ctx) })
	}
	return s.next
}

func (s *settler) run(ctx context.Context) {
	for {
		s.mu.Lock()
		done, since := s.next, s.since
		s.next, s.running = nil, done != nil
		s.mu.Unlock()
		if done == nil {
			return
		}
		if err := s.settle(ctx, since); err != nil {
			s.failed(err)
		}
		close(done)
	}
}
