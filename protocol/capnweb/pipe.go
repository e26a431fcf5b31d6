package capnweb

import (
	"context"
	"io"
	"sync"
)

// A pipe is the receiving end of a stream: the peer writes to it by calls, whoever has
// the stream reads from it. A write is answered when its chunk has been taken.
//
// The lock of its session may be held when its own is taken, never the other way round.
type pipe struct {
	taken bool // the readable end was handed out; under the lock of the session

	mu        sync.Mutex
	s         *Session // nil before it is attached to one
	queue     []*chunk
	closed    bool     // the writer has closed it
	closing   *promise // its close, until all chunks are taken
	err       error    // what broke it
	cancelled bool     // by the reader
	wake      chan struct{}
}

// A chunk is one write that nobody has taken.
type chunk struct {
	p     *promise
	args  *evaluated
	size  int
	ready bool
	err   error
}

func newPipe(s *Session) *pipe { return &pipe{s: s, wake: make(chan struct{}, 1)} }

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pipeCall is a call of the peer's to a pipe.
func (s *Session) pipeCall(call *promise, p *pipe, path []any, args *evaluated) {
	if args == nil {
		s.fail(call, &Error{Message: "Cannot access properties on a WritableStream stub"})
		return
	}
	if len(path) != 1 {
		s.refuse(call, args, &Error{Message: "WritableStream stub only supports direct method calls"})
		return
	}
	switch name := partName(path[0]); name {
	case "write":
		s.pipeWrite(call, p, args)
	case "close":
		s.discard(args)
		s.pipeClose(call, p)
	case "abort":
		s.whenComplete(args, func(err error) {
			if err == nil {
				err = &Error{Message: "the stream was aborted"}
				if list := args.v.([]any); len(list) > 0 {
					if _, none := list[0].(Undefined); !none {
						err = thrown(list[0])
					}
				}
			}
			s.releaseAll(args.owned)
			s.pipeFail(p, err)
			s.resolve(call, undefinedValue, true)
		})
	default:
		s.refuse(call, args, &Error{Message: "Unknown WritableStream method: " + quoteFor([]byte(name))})
	}
}

func (s *Session) pipeWrite(call *promise, p *pipe, args *evaluated) {
	c := &chunk{p: call, args: args, size: args.bytes + chunkOverhead}
	p.mu.Lock()
	err := p.err
	if err == nil && p.closed {
		err = typeErrorf("the stream is closed")
	}
	full := error(nil)
	switch {
	case err != nil:
	case s.streamBytes+c.size > s.max.streamBytes:
		full = limitErrorf("more than %d bytes of streams wait to be read", s.max.streamBytes)
	case s.memory.Over():
		full = errShort
	}
	if full != nil {
		err = full
		p.mu.Unlock()
		s.pipeFail(p, err)
		p.mu.Lock()
	}
	if err == nil {
		p.queue = append(p.queue, c)
		s.unread[p] = struct{}{}
		s.streamBytes += c.size
		s.keep(call)
	}
	p.mu.Unlock()
	if err != nil {
		s.refuse(call, args, err)
		return
	}
	s.whenComplete(args, func(err error) {
		p.mu.Lock()
		c.ready, c.err = true, err
		p.mu.Unlock()
		p.signal()
	})
}

func (s *Session) pipeClose(call *promise, p *pipe) {
	p.mu.Lock()
	err := p.err
	if err == nil && p.closed {
		err = typeErrorf("the stream is closed")
	}
	waits := len(p.queue) > 0
	if err == nil {
		p.closed = true
		if waits {
			s.keep(call)
			p.closing = call
		}
	}
	p.mu.Unlock()
	p.signal()
	switch {
	case err != nil:
		s.fail(call, err)
	case !waits:
		s.resolve(call, undefinedValue, true)
	}
}

// pipeReleased is the end of the writable end.
func (s *Session) pipeReleased(p *pipe) { s.pipeReleasedBy(p, ErrNotClosed) }

func (s *Session) pipeReleasedBy(p *pipe, reason error) {
	p.mu.Lock()
	over := p.closed || p.err != nil
	p.mu.Unlock()
	if !over {
		s.pipeFail(p, reason)
	}
}

// pipeFail breaks a pipe. What waits in it is rejected with the reason.
func (s *Session) pipeFail(p *pipe, reason error) {
	p.mu.Lock()
	queue, closing := p.queue, p.closing
	p.queue, p.closing = nil, nil
	if p.err == nil && (!p.closed || len(queue) > 0) {
		p.err = reason
	}
	p.mu.Unlock()
	delete(s.unread, p)
	p.signal()
	for _, c := range queue {
		s.chunkDone(c, reason)
	}
	if closing != nil {
		s.fail(closing, reason)
		s.drop(closing)
	}
}

// pipeBreak breaks a pipe by a chunk that was taken from it. closing is the close that
// waited for that, nil for none.
func (s *Session) pipeBreak(p *pipe, reason error, closing *promise) {
	p.mu.Lock()
	p.err = reason
	if closing != nil {
		p.closing = closing
	}
	p.mu.Unlock()
	s.pipeFail(p, reason)
}

// chunkDone answers a write.
func (s *Session) chunkDone(c *chunk, err error) {
	s.streamBytes -= c.size
	if err != nil {
		s.discard(c.args)
		s.fail(c.p, err)
	} else {
		s.resolve(c.p, undefinedValue, true)
	}
	s.drop(c.p)
}

// next takes the next chunk, which answers its write.
func (p *pipe) next(ctx context.Context) (any, error) {
	for {
		c, err := p.take()
		switch {
		case err != nil:
			return nil, err
		case c == nil:
			select {
			case <-p.wake:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		case c.err != nil:
			return nil, c.err
		}
		if list := c.args.v.([]any); len(list) > 0 {
			return list[0], nil
		}
		return Undefined{}, nil
	}
}

// take takes the first chunk, if it is ready, and answers it and the close that waited for
// it, before the session knows that the pipe is empty. A chunk whose value cannot be had
// breaks the pipe: a stream that went on would lack it. The error says that there is none
// to come.
func (p *pipe) take() (*chunk, error) {
	p.mu.Lock()
	s, ready, err := p.s, p.ready(), p.over()
	p.mu.Unlock()
	if !ready {
		return nil, err
	}
	s.lock()
	defer s.unlock()
	c, closing, err := p.pop()
	if c != nil {
		s.chunkDone(c, c.err)
		if c.err != nil {
			s.pipeBreak(p, c.err, closing)
			return c, nil
		}
	}
	if closing != nil {
		s.resolve(closing, undefinedValue, true)
		s.drop(closing)
	}
	return c, err
}

// pop takes the first chunk that is ready from the queue, with the close that waited for
// it, or tells that there is none to come.
func (p *pipe) pop() (c *chunk, closing *promise, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready() {
		return nil, nil, p.over()
	}
	c = p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	if len(p.queue) == 0 {
		p.queue = nil
		delete(p.s.unread, p)
		closing, p.closing = p.closing, nil
	} else if p.ready() {
		p.signal()
	}
	return c, closing, nil
}

// ready reports whether there is a chunk to take. p.mu is held.
func (p *pipe) ready() bool { return p.over() == nil && len(p.queue) > 0 && p.queue[0].ready }

// over says why no chunk is to come, nil while one may. p.mu is held.
func (p *pipe) over() error {
	switch {
	case p.cancelled:
		return ErrReleased
	case p.err != nil:
		return p.err
	case len(p.queue) == 0 && p.closed:
		return io.EOF
	}
	return nil
}

// cancel rejects what was written and what will be.
func (p *pipe) cancel(reason error) {
	if reason == nil {
		reason = ErrNotConsumed
	}
	p.mu.Lock()
	s := p.s
	over := p.over() != nil
	p.cancelled = true
	p.mu.Unlock()
	if over {
		return
	}
	if s == nil {
		p.mu.Lock()
		p.err = reason
		p.mu.Unlock()
		return
	}
	s.lock()
	s.pipeFail(p, reason)
	s.unlock()
}
