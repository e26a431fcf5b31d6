package httprequest

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// deltaBytes is the most that one http/request/bodyDelta carries.
const deltaBytes = 128 << 10

// stream is a response whose body is sent piece by piece.
type stream struct {
	id   string
	done chan struct{} // closed once the id is free again

	// Guarded by the Service's mutex; body, cancel and memory are set on the way to ready.
	state  streamState
	body   io.ReadCloser
	cancel context.CancelFunc
	memory *lender
}

type streamState int

const (
	reserved streamState = iota // its request is being made
	ready                       // the answer is being sent
	flowing                     // a goroutine sends the body
	ending                      // the last delta is on its way
	ended
)

// requestStream makes a request and leaves the body of the response to a stream,
// which begins once the answer has been queued.
func (s *Service) requestStream(ctx context.Context, req *http.Request, p *protocol.HTTPRequestParams) (*protocol.HTTPResponse, error) {
	st, err := s.reserve(ctx, p.RequestID)
	if err != nil {
		s.countOut()
		s.running.Done()
		return nil, err
	}
	handedOver := false
	defer func() {
		if !handedOver {
			s.countOut()
			s.release(st)
			s.running.Done()
		}
	}()
	lifetime, cancel := s.lifetime(p.TimeoutMs)
	stop := context.AfterFunc(ctx, cancel)
	resp, err := s.send(lifetime, req, p)
	stop() // a stream outlives its request
	if err != nil {
		cancel()
		return nil, err
	}
	memory := s.lender(lifetime)
	result, body := responseOf(resp, memory)
	if !s.setReady(st, body, cancel, memory) {
		cancel()
		body.Close()
		return nil, errServiceClosed
	}
	handedOver = true
	rpc.AfterReply(ctx, func() { s.start(st) })
	return result, nil
}

// reserve takes id for a stream, or refuses it while another stream has it. A
// client that saw the last delta may use the id again at once, so reserve waits for
// a stream that is just ending.
func (s *Service) reserve(ctx context.Context, id string) (*stream, error) {
	for {
		s.mu.Lock()
		old := s.streams[id]
		if old == nil {
			st := &stream{id: id, done: make(chan struct{})}
			s.streams[id] = st
			s.mu.Unlock()
			return st, nil
		}
		state := old.state
		s.mu.Unlock()
		if state != ending {
			return nil, protocol.InvalidParams("http/request streamResponse requestId `%s` is already active", id)
		}
		select {
		case <-old.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// release frees a stream's id.
func (s *Service) release(st *stream) {
	s.mu.Lock()
	if s.streams[st.id] == st {
		delete(s.streams, st.id)
	}
	s.mu.Unlock()
	close(st.done)
}

// setReady gives a stream its body; false when the Service has been closed.
func (s *Service) setReady(st *stream, body io.ReadCloser, cancel context.CancelFunc, memory *lender) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	st.state, st.body, st.cancel, st.memory = ready, body, cancel, memory
	return true
}

// start begins to send a stream's body, unless Close was there before.
func (s *Service) start(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.state != ready {
		return
	}
	st.state = flowing
	go s.pump(st) // Close cancels it and waits for it
}

// pump sends a stream's body and its end.
func (s *Service) pump(st *stream) {
	defer s.running.Done()
	defer s.release(st)
	defer st.cancel()
	defer st.memory.release()
	defer st.body.Close()
	seq, err := s.copyBody(st)
	s.mu.Lock()
	st.state = ending
	s.count--
	s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	last := protocol.HTTPBodyDeltaParams{RequestID: st.id, Seq: seq + 1, DeltaBase64: []byte{}, Done: true}
	if !errors.Is(err, io.EOF) {
		text := bodyError(err)
		last.Error = &text
	}
	s.notify(&last)
}

// copyBody sends the body's pieces as they come and returns the number of the last
// one, and io.EOF or why the body ended early.
func (s *Service) copyBody(st *stream) (seq uint64, err error) {
	if err := st.memory.take(deltaBytes); err != nil {
		return 0, err
	}
	buf := make([]byte, deltaBytes)
	for {
		n, err := st.body.Read(buf)
		if n > 0 {
			seq++
			delta := protocol.HTTPBodyDeltaParams{RequestID: st.id, Seq: seq, DeltaBase64: buf[:n]}
			if !s.notify(&delta) {
				return seq, errServiceClosed
			}
		}
		if err != nil {
			return seq, err
		}
	}
}

// notify waits until the client has room for delta; false when it never will.
func (s *Service) notify(delta *protocol.HTTPBodyDeltaParams) bool {
	err := s.notifier.Notify(s.ctx, protocol.NotifyHTTPBodyDelta, delta)
	if err != nil {
		s.cfg.Logger.Debug("response stream has no reader", "err", err)
	}
	return err == nil
}

// bodyError is how the client is told that a body ended early. The first words are
// those of the original.
func bodyError(err error) string { return "error decoding response body: " + reason(err) }
