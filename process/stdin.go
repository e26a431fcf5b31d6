package process

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

var (
	// errStdinClosed is returned for a write after the end of the input.
	errStdinClosed = errors.New("stdin is closed")
	// errStdinBroken is returned for a write after terminate.
	errStdinBroken = errors.New("failed to write to process stdin")
)

// stdin is the queue of a child's input. Writes are written in the order of put. One
// that the queue has no room for waits outside, in order too. What the child does
// not take, because it has closed its end or is gone, is dropped silently.
type stdin struct {
	input Input

	mu      sync.Mutex
	queue   []*ticket // accepted
	bytes   int       // of queue
	waiting []*ticket // not accepted yet
	ids     writeIDs
	ended   bool // no more input: EOF was put
	broken  bool // terminate was called
	deaf    bool // a write has failed: the child takes no more
	writing bool // somebody empties queue, or is about to
	begin   bool // who has set writing is to start that once mu is free
	wg      sync.WaitGroup
}

// ticket is one write, or one EOF.
type ticket struct {
	data []byte
	eof  bool
	id   *string
	// holders are the Done channels of the requests that wait for the ticket: repeats
	// share it, and the requests of one connection share a channel.
	holders []<-chan struct{}
	done    chan struct{} // closed once accepted, or refused with err
	err     error
}

func (t *ticket) settle(err error) {
	t.err, t.data, t.holders = err, nil, nil
	close(t.done)
}

// hold notes that a request waits for t, unless t is settled.
func (t *ticket) hold(ctx context.Context) {
	if isClosed(t.done) {
		return
	}
	t.holders = slices.DeleteFunc(t.holders, isClosed)
	if !slices.Contains(t.holders, ctx.Done()) {
		t.holders = append(t.holders, ctx.Done())
	}
}

// abandoned reports whether no request waits for t any more.
func (t *ticket) abandoned() bool {
	return !slices.ContainsFunc(t.holders, func(c <-chan struct{}) bool { return !isClosed(c) })
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func newStdin(input Input) *stdin { return &stdin{input: input} }

// put queues a write for the request of ctx. id may be nil; the ticket of an earlier
// write with the same id is returned if that is remembered. Once the ticket's done is
// closed, its err says whether the write was accepted. A caller that stops waiting
// because ctx has ended calls withdraw.
func (s *stdin) put(ctx context.Context, id *string, data []byte) (*ticket, error) {
	s.mu.Lock()
	defer s.start()
	if id != nil {
		if t := s.ids.find(*id); t != nil {
			t.hold(ctx)
			return t, nil
		}
	}
	return s.add(ctx, &ticket{data: data, id: id, done: make(chan struct{})})
}

// putEOF queues the end of the input. With final nothing can be written after it. A
// final end that another connection waits for is shared, as a write's id is.
func (s *stdin) putEOF(ctx context.Context, final bool) (*ticket, error) {
	s.mu.Lock()
	defer s.start()
	if final && s.ended && len(s.waiting) > 0 {
		t := s.waiting[len(s.waiting)-1] // the end: nothing is put behind it
		if !slices.Contains(t.holders, ctx.Done()) {
			t.hold(ctx)
			return t, nil
		}
	}
	t, err := s.add(ctx, &ticket{eof: true, done: make(chan struct{})})
	if err == nil && final {
		s.ended = true
	}
	return t, err
}

// add queues t. Once ctx has ended nothing of it is added: a write before it may have
// been withdrawn.
func (s *stdin) add(ctx context.Context, t *ticket) (*ticket, error) {
	if s.ended {
		s.takeBack() // the end may be of a connection that is gone
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case s.broken:
		return nil, errStdinBroken
	case s.ended:
		return nil, errStdinClosed
	}
	if t.id != nil {
		s.ids.add(*t.id, t)
	}
	t.hold(ctx)
	s.waiting = append(s.waiting, t)
	s.admit()
	return t, nil
}

// admit accepts what there is room for.
func (s *stdin) admit() {
	for len(s.waiting) > 0 {
		t := s.waiting[0]
		if !s.deaf && len(s.queue) > 0 &&
			(len(s.queue) >= protocol.MaxQueuedWrites || s.bytes+len(t.data) > protocol.MaxQueuedWriteBytes) {
			return
		}
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		s.accept(t)
	}
}

func (s *stdin) accept(t *ticket) {
	data, eof := t.data, t.eof
	t.settle(nil)
	if s.deaf || len(data) == 0 && !eof {
		return
	}
	s.queue = append(s.queue, &ticket{data: data, eof: eof})
	s.bytes += len(data)
	if !s.writing {
		s.writing, s.begin = true, true
		s.wg.Add(1) // for start; waited for by close
	}
}

// start lets go of mu and, if a write has come into an empty queue, writes it: at
// once if the child takes it, as it does a keystroke, else on a goroutine.
func (s *stdin) start() {
	begin := s.begin
	s.begin = false
	s.mu.Unlock()
	if !begin {
		return
	}
	if s.writeAtOnce() {
		s.wg.Done()
		return
	}
	go func() { // counted by accept
		defer s.wg.Done()
		s.write()
	}()
}

// writeAtOnce writes the first of the queue as far as that can be done without
// waiting, and reports whether nothing is left to write.
func (s *stdin) writeAtOnce() bool {
	s.mu.Lock()
	if len(s.queue) == 0 || s.queue[0].eof {
		defer s.mu.Unlock()
		return s.rest()
	}
	t := s.queue[0]
	s.mu.Unlock()

	n, err := s.input.TryWrite(t.data)

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.drop()
	case len(s.queue) == 0: // terminate or close has emptied it
	case n == len(t.data):
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.bytes -= n
	default:
		t.data = t.data[n:]
		s.bytes -= n
	}
	s.admit()
	return s.rest()
}

// rest ends the writing if the queue is empty.
func (s *stdin) rest() bool {
	if len(s.queue) > 0 {
		return false
	}
	s.queue, s.writing = nil, false
	return true
}

// write empties the queue into the child.
func (s *stdin) write() {
	for {
		s.mu.Lock()
		if s.rest() {
			s.mu.Unlock()
			return
		}
		t := s.queue[0]
		s.mu.Unlock()

		var err error
		if t.eof {
			err = s.input.EOF()
		} else {
			_, err = s.input.Write(t.data)
		}

		s.mu.Lock()
		if len(s.queue) > 0 { // else break or close has emptied it
			s.queue[0] = nil
			s.queue = s.queue[1:]
			s.bytes -= len(t.data)
		}
		if err != nil { // the child has closed its end, which is its right
			s.drop()
		}
		s.admit()
		s.mu.Unlock()
	}
}

// drop forgets what is queued; later writes are accepted and lead nowhere.
func (s *stdin) drop() {
	s.deaf = true
	clear(s.queue)
	s.queue, s.bytes = s.queue[:0], 0
}

// withdraw takes back the writes that were not accepted yet and that no request waits
// for any more.
func (s *stdin) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeBack()
}

// takeBack takes back all abandoned writes at once: a write that a connection sent
// later is not accepted without those before it. A final end of the input that is taken
// back can be put again.
func (s *stdin) takeBack() {
	s.waiting = slices.DeleteFunc(s.waiting, func(t *ticket) bool {
		if !t.abandoned() {
			return false
		}
		if t.id != nil {
			s.ids.remove(*t.id)
		}
		if t.eof {
			s.ended = false
		}
		t.settle(errStdinBroken)
		return true
	})
	s.admit()
}

// terminate drops everything and refuses what comes.
func (s *stdin) terminate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
	s.drop()
	for _, t := range s.waiting {
		t.settle(errStdinBroken)
	}
	s.waiting = nil
}

// close ends a write that waits, drops what is queued, and waits for the writer.
func (s *stdin) close() {
	s.mu.Lock()
	s.drop()
	s.admit()
	s.mu.Unlock()
	_ = s.input.Close() // nobody is left to be told
	s.wg.Wait()
}
