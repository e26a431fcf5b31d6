package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// calls matches answers to the calls of a Peer. The matching is that of
// sourcegraph/jsonrpc2; parameters and results do not pass through it, since it
// copies each several times: it sees envelopes with the id alone, and the rest
// waits here under that id.
type calls struct {
	peer *Peer

	mu      sync.Mutex
	lib     *jsonrpc2.Conn // made by the first call
	answers chan []byte    // stub responses for lib
	ended   bool
	cause   error
	lastID  uint64
	pending map[uint64]*call
}

// call is a request on its way.
type call struct {
	request *buffer // nil once sent

	mu        sync.Mutex
	abandoned bool
	settled   bool
	result    any // decoded into by the reader, unless abandoned
	err       error
}

// Call sends a request and decodes its result into result, which may be nil. Its
// error is a *protocol.Error if the other end answered with one, ErrClosed if the
// connection ended first, or the context's. A call given up through ctx may have
// run all the same; one whose ctx has ended before is not sent.
func (p *Peer) Call(ctx context.Context, method string, params, result any) error {
	return p.calls.call(ctx, method, params, result)
}

func (c *calls) call(ctx context.Context, method string, params, result any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pending := &call{request: takeBuffer(wire.SizeHint(params)), result: result}
	lib, id, err := c.register(pending)
	if err != nil {
		return err
	}
	if pending.request.b, err = wire.AppendRequest(pending.request.b[:0], wire.IntID(int64(id)), method, params, c.peer.version2.Load()); err != nil {
		c.forget(id)
		return err
	}
	// Room is waited for here, because the library would wait with a lock held.
	lane := c.peer.out.replies
	pending.request.lane, pending.request.weight = lane, lane.weigh(pending.request)
	if err := c.acquire(ctx, lane, pending.request.weight); err != nil {
		c.forget(id)
		return err
	}
	err = lib.Call(ctx, method, nil, nil, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
	return pending.outcome(c, err)
}

func (c *calls) acquire(ctx context.Context, l lane, weight int64) error {
	if l.room.TryAcquire(weight) {
		return nil
	}
	ctx, cancel := c.peer.lifetime(ctx)
	defer cancel()
	if err := l.room.Acquire(ctx, weight); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// outcome gives up the call unless it was settled, and says what became of it.
func (p *call) outcome(c *calls, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return p.err
	}
	p.abandoned = true
	if err == nil || errors.Is(err, jsonrpc2.ErrClosed) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return closedError{c.cause}
	}
	return err
}

func (c *calls) register(pending *call) (*jsonrpc2.Conn, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, 0, closedError{c.cause}
	}
	if c.lib == nil {
		c.answers = make(chan []byte, 16)
		c.pending = make(map[uint64]*call)
		c.lib = jsonrpc2.NewConn(context.Background(), &callStream{calls: c, answers: c.answers, done: make(chan struct{})},
			jsonrpc2.HandlerWithError(func(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) (any, error) {
				return nil, errors.New("unreachable: requests do not pass through the library")
			}), jsonrpc2.SetLogger(log.New(io.Discard, "", 0)))
	}
	c.lastID++
	c.pending[c.lastID] = pending
	return c.lib, c.lastID, nil
}

// forget drops a call that was never sent.
func (c *calls) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// settle hands an answer to its call; false when none waits for it.
func (c *calls) settle(env *wire.Envelope) bool {
	num, isInt := env.ID.Int()
	if !isInt || num <= 0 {
		return false
	}
	c.mu.Lock()
	id := uint64(num)
	pending := c.pending[id]
	delete(c.pending, id)
	answers := c.answers
	c.mu.Unlock()
	if pending == nil {
		return false
	}
	pending.settle(env)
	select {
	case answers <- fmt.Appendf(nil, `{"id":%d,"result":null}`, id):
	case <-c.peer.closed:
	}
	return true
}

func (p *call) settle(env *wire.Envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned {
		return
	}
	p.settled = true
	switch {
	case env.Error != nil:
		failure := new(protocol.Error)
		if err := failure.UnmarshalWire(env.Error); err != nil {
			p.err = fmt.Errorf("decode error response: %w", err)
			return
		}
		p.err = failure
	case p.result != nil:
		if err := wire.Unmarshal(env.Result, p.result); err != nil {
			p.err = fmt.Errorf("decode result: %w", err)
		}
	}
}

// end fails every call that waits and every later one.
func (c *calls) end(cause error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended, c.cause = true, cause
	lib := c.lib
	c.mu.Unlock()
	if lib != nil {
		_ = lib.Close() // ErrClosed at worst: it is closed
	}
}

// callStream is the library's side of calls.
type callStream struct {
	calls   *calls
	answers <-chan []byte
	done    chan struct{}
	once    sync.Once
}

// WriteObject sends the request that waits under v's id.
func (s *callStream) WriteObject(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var head struct{ ID uint64 }
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	s.calls.mu.Lock()
	pending := s.calls.pending[head.ID]
	s.calls.mu.Unlock()
	if pending == nil {
		return ErrClosed
	}
	msg := pending.request
	pending.request = nil
	return s.calls.peer.out.enqueue(msg)
}

// ReadObject hands the library the next answer.
func (s *callStream) ReadObject(v any) error {
	select {
	case stub := <-s.answers:
		return json.Unmarshal(stub, v)
	case <-s.done:
		return ErrClosed
	}
}

func (s *callStream) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}
