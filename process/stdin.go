package process

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/handoff"
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
	sender  *handoff.Sender[*ticket]
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

func newStdin(input Input) *stdin {
	s := &stdin{input: input}
	s.sender = handoff.NewSender(handoff.SenderConfig[*ticket]{Lock: &s.mu, Next: s.next, Try: s.tryWrite, Send: s.write})
	return s
}

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
}

// start has the queue written, and releases mu. The child takes a keystroke at once; what it
// does not take is written on a goroutine.
func (s *stdin) start() {
	s.sender.StartAsync() // close waits for it
	s.mu.Unlock()
}

// next returns the first of the queue, which stays there until it is written.
func (s *stdin) next() (t *ticket, ok bool) {
	if len(s.queue) == 0 {
		s.queue = nil
		return nil, false
	}
	return s.queue[0], true
}

// tryWrite writes t as far as that can be done without waiting.
func (s *stdin) tryWrite(t *ticket) (finish func()) {
	if t.eof {
		return func() { s.write(t) }
	}
	n, err := s.input.TryWrite(t.data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && n < len(t.data) && !s.deaf {
		t.data = t.data[n:]
		s.bytes -= n
		finish = func() { s.write(t) }
	} else {
		s.written(t, err)
	}
	s.admit()
	return finish
}

// write writes t, unless the child takes no more.
func (s *stdin) write(t *ticket) {
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf {
		return
	}
	var err error
	if t.eof {
		err = s.input.EOF()
	} else {
		_, err = s.input.Write(t.data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written(t, err)
	s.admit()
}

// written takes t from the queue, unless terminate or close has emptied it.
func (s *stdin) written(t *ticket, err error) {
	if len(s.queue) > 0 {
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.bytes -= len(t.data)
	}
	if err != nil { // the child has closed its end, which is its right
		s.drop()
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
	_ = s.sender.Wait(context.Background())
}
