package capnweb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// ServeBatch serves main to one batch: messages in lines, which are all there are. It
// returns what to answer. The error is a *ProtocolError when the batch is at fault.
// Streams cannot be answered; those among the arguments must be complete in the batch.
func ServeBatch(ctx context.Context, batch []byte, cfg Config) ([]byte, error) {
	if len(batch) > MaxBatchBytes {
		return nil, protocolErrorf("RangeError", "a batch of more than %d bytes", MaxBatchBytes)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, BatchTimeout, errBatchSlow)
	defer cancel()
	cfg.batch, cfg.held = true, true
	if cfg.bounds == (bounds{}) {
		cfg.bounds = defaultBounds
	}
	cfg.bounds.queuedBytes = cfg.bounds.batchAnswer
	t := &batchTransport{in: bytes.Split(batch, []byte{'\n'}), read: make(chan struct{}), closed: make(chan struct{})}
	s := New(t, cfg)
	defer func() {
		s.lock()
		s.end(ErrClosed, nil)
		s.unlock()
	}()
	select {
	case <-t.read:
	case <-s.done:
		return nil, s.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case <-s.inputEnded():
	case <-s.done:
		return nil, s.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return s.batchAnswer()
}

// errBatchSlow ends a batch that takes too long.
var errBatchSlow = fmt.Errorf("the batch took more than %s; use a session for calls that take long", BatchTimeout)

// errBatchEnded fails what would need another message of the peer's.
var errBatchEnded = &Error{Message: "Batch RPC request ended.", Code: CodeProtocol}

// inputEnded breaks what waits for messages of the peer's, which will not come, and
// returns a channel that is closed once all that was pulled is answered.
func (s *Session) inputEnded() <-chan struct{} {
	s.lock()
	defer s.unlock()
	for _, e := range s.exports {
		switch p, ok := e.subject.(*pipe); {
		case !ok:
		case p.taken:
			s.pipeReleasedBy(p, errBatchEnded)
		default: // no message can hand out its readable end any more
			s.pipeFail(p, errBatchEnded)
		}
	}
	for id, p := range s.imports {
		if !p.object && p.onAnswer == nil {
			delete(s.imports, id)
			p.imported = false
			s.fail(p, errBatchEnded)
		}
	}
	done := make(chan struct{})
	s.later(func() {
		if s.unanswered == 0 {
			close(done)
		} else {
			s.answered = done
		}
	})
	return done
}

// batchAnswer joins what was to be sent.
func (s *Session) batchAnswer() ([]byte, error) {
	s.lock()
	defer s.unlock()
	if s.ended != nil {
		return nil, s.ended
	}
	return joinLines(s.takeHeld()), nil
}

func joinLines(frames []message) []byte {
	texts := make([][]byte, len(frames))
	for i := range frames {
		texts[i] = frames[i].text
	}
	return bytes.Join(texts, []byte{'\n'})
}

// A batchTransport gives the lines of a batch. Its session's frames stay in the outbox.
type batchTransport struct {
	in     [][]byte
	read   chan struct{} // closed after the last line
	closed chan struct{}
	once   sync.Once
}

func (t *batchTransport) Read(context.Context) ([]byte, error) {
	for len(t.in) > 0 {
		line := t.in[0]
		t.in = t.in[1:]
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
	close(t.read)
	<-t.closed
	return nil, io.EOF
}

func (t *batchTransport) Write(context.Context, []byte) error { return nil }

func (t *batchTransport) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

// BatchHandler serves batches over HTTP; config is asked for each request.
func BatchHandler(config func(*http.Request) Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "This endpoint only accepts POST requests.", http.StatusMethodNotAllowed)
			return
		}
		cfg := config(r)
		if cfg.Memory == nil {
			cfg.Memory = noMemory{}
		}
		in := &metered{ctx: r.Context(), r: http.MaxBytesReader(w, r.Body, MaxBatchBytes), memory: cfg.Memory}
		defer func() { cfg.Memory.Give(in.taken) }()
		body, err := io.ReadAll(in)
		if err != nil {
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				http.Error(w, "the batch is too large", http.StatusRequestEntityTooLarge)
			} else if errors.Is(err, errShort) {
				w.Header().Set("Retry-After", "1")
				http.Error(w, errShort.Message, http.StatusServiceUnavailable)
			} else {
				http.Error(w, "the batch is not complete", http.StatusBadRequest)
			}
			return
		}
		answer, err := ServeBatch(r.Context(), body, cfg)
		if err != nil {
			status, text := http.StatusInternalServerError, "the batch failed"
			if p, ok := errors.AsType[*ProtocolError](err); ok {
				status, text = http.StatusBadRequest, p.Message
			} else if a, ok := errors.AsType[*AbortError](err); ok {
				status, text = http.StatusBadRequest, a.Error()
			} else if errors.Is(err, errBatchSlow) {
				status, text = http.StatusGatewayTimeout, err.Error()
			}
			http.Error(w, text, status)
			return
		}
		cfg.Memory.Force(int64(len(answer))) // it is written when the session is no more
		defer cfg.Memory.Give(int64(len(answer)))
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(answer)
	})
}

// metered reads what it has taken memory for.
type metered struct {
	ctx    context.Context
	r      io.Reader
	memory Memory
	taken  int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if m.memory.Take(m.ctx, int64(n)) != nil {
		return 0, errShort
	}
	m.taken += int64(n)
	return n, err
}
