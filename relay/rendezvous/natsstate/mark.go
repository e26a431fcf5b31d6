package natsstate

import (
	"context"
	"sync"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// A mark makes reads see every write that was done before them. A server may answer
// reads although it is behind: a follower that has not heard yet, or one that was the
// leader until it was cut off and does not know. So a read first writes a mark, which
// only a majority can accept, and then believes a server that has the mark, and hence
// all that was written before it. One that is cut off gets no mark through: its reads
// are errors, not old answers.
//
// Reads that begin while a mark is being written share the next one.
type mark struct {
	state   *State
	subject string

	mu      sync.Mutex
	running *flight // nil when none is
	next    *flight // waits for the running one; nil when nobody waits
}

// A flight is one write of a mark.
type flight struct {
	done     chan struct{}
	sequence uint64
	err      error
}

// markSubject cannot be that of a key: a key has no dot.
const markKey = "mark.last"

func (s *State) mark(bucket rendezvous.Bucket) *mark {
	if m, ok := s.marks.Load(bucket); ok {
		return m.(*mark)
	}
	m, _ := s.marks.LoadOrStore(bucket, &mark{state: s, subject: s.subject(bucket, markKey)})
	return m.(*mark)
}

// write returns the sequence of a mark that was written after write was called.
func (m *mark) write(ctx context.Context) (uint64, error) {
	f := m.join()
	select {
	case <-f.done:
		return f.sequence, f.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// join returns a flight that has not begun yet, or begins one.
func (m *mark) join() *flight {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == nil {
		m.running = &flight{done: make(chan struct{})}
		m.begin(m.running)
		return m.running
	}
	if m.next == nil {
		m.next = &flight{done: make(chan struct{})}
	}
	return m.next
}

// begin starts the write in a goroutine that Close waits for. A flight belongs to all
// who joined it and so has a time of its own.
func (m *mark) begin(f *flight) {
	m.state.tasks.Go(func() {
		ctx, cancel := m.state.call(context.Background())
		f.sequence, f.err = m.state.commit(ctx, write{subject: m.subject})
		cancel()
		close(f.done)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.running, m.next = m.next, nil
		if m.running != nil {
			m.begin(m.running)
		}
	})
}
