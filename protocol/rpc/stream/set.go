package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Config is what a Set may be told; the zero value is a server's.
type Config struct {
	// MaxOut and MaxIn bound the streams; 0 means protocol.MaxStreamsOut and MaxStreamsIn.
	MaxOut, MaxIn int
	// MaxItemsBytes bounds one stream/items that arrives; 0 means
	// protocol.MaxStreamItemsBytes.
	MaxItemsBytes int
	// Logger is told of streams that end because the other end breaks the rules. nil
	// discards.
	Logger *slog.Logger
}

// Set is the streams of one end of a connection.
type Set struct {
	notifier rpc.Notifier
	cfg      Config
	life     context.Context
	end      context.CancelCauseFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lastID uint64
	out    map[string]*Out
	in     map[string]*In
}

// ErrClosed is in the error of streams that the end of their connection ended.
var ErrClosed = fmt.Errorf("stream ended early: %w", rpc.ErrClosed)

// New makes the Set of a connection whose other end n reaches.
func New(n rpc.Notifier, cfg Config) *Set {
	cfg.MaxOut = cmp.Or(cfg.MaxOut, protocol.MaxStreamsOut)
	cfg.MaxIn = cmp.Or(cfg.MaxIn, protocol.MaxStreamsIn)
	cfg.MaxItemsBytes = cmp.Or(cfg.MaxItemsBytes, protocol.MaxStreamItemsBytes)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{notifier: n, cfg: cfg, out: make(map[string]*Out), in: make(map[string]*In)}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

// Close ends all streams and waits until none of them is worked on. Readers get what has
// arrived, and then an error that is ErrClosed.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	var out []*Out
	for _, o := range s.out {
		out = append(out, o)
	}
	var in []*In
	for _, i := range s.in {
		in = append(in, i)
	}
	s.mu.Unlock()
	s.end(ErrClosed)
	for _, o := range out {
		o.Stop(ErrClosed)
	}
	for _, i := range in {
		i.finish(ErrClosed)
	}
	s.running.Wait()
	return nil
}

// spawn runs fn on a goroutine that Close waits for; false once Close has begun.
func (s *Set) spawn(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(fn)
	return true
}

// Reserve makes room for a stream to be written, before what it is of is opened. window
// is the credit that the reader has stated in its request, usual what there is without.
// The Out must be given a Source, or released.
func (s *Set) Reserve(window *int64, usual int64) (*Out, error) {
	if window != nil {
		if usual = *window; usual < 1 {
			return nil, protocol.InvalidParams("the window of a stream has a byte at least, not %d", usual)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case len(s.out) >= s.cfg.MaxOut:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "at most %d streams may be open per connection", s.cfg.MaxOut)
	}
	s.lastID++
	o := newOut(s, strconv.FormatUint(s.lastID, 10), usual)
	s.out[o.id] = o
	return o, nil
}

func (s *Set) forgetOut(o *Out) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.out, o.id)
}

// announce makes room for the stream that parameters name, whose request has just arrived.
// Its writer has no credit yet; one that sends all the same has what it will be given.
func (s *Set) announce(p *protocol.StreamParam) error {
	if p != nil && p.Items != nil && p.StreamID == nil {
		return nil
	}
	if p == nil || p.StreamID == nil || p.Items != nil {
		return protocol.InvalidParams("a stream has either a streamId or items")
	}
	_, err := s.add(*p.StreamID, protocol.StreamWindow, true)
	return err
}

// Receive begins to read the stream that parameters name, which were announced.
func (s *Set) Receive(ctx context.Context, p *protocol.StreamParam) (*In, error) {
	if p.StreamID == nil {
		return written(s, *p.Items), nil
	}
	s.mu.Lock()
	in := s.in[*p.StreamID]
	if in == nil || !in.early {
		s.mu.Unlock()
		return nil, fmt.Errorf("the stream %q was not announced", *p.StreamID)
	}
	in.early = false
	s.mu.Unlock()
	in.mu.Lock()
	over := in.over
	in.mu.Unlock()
	if over {
		s.forgetIn(in)
		return in, nil
	}
	if err := in.grant(ctx, in.window); err != nil {
		in.Close(err)
		return nil, err
	}
	return in, nil
}

// Expect begins to read the stream that a result names, whose writer was told of window
// in the request. It is for who decodes results, before anything behind them is read.
func (s *Set) Expect(ref protocol.StreamRef, window int64) (*In, error) {
	return s.add(ref.StreamID, window, false)
}

func (s *Set) add(id string, window int64, early bool) (*In, error) {
	if id == "" || len(id) > protocol.MaxStreamIDBytes {
		return nil, protocol.InvalidParams("the id of a stream has 1 to %d bytes", protocol.MaxStreamIDBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.in[id] != nil:
		return nil, protocol.InvalidParams("the stream `%s` is open already", id)
	case len(s.in) >= s.cfg.MaxIn:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "at most %d streams may be sent at a time per connection", s.cfg.MaxIn)
	}
	in := &In{set: s, id: id, window: window, credit: window, early: early}
	s.in[id] = in
	return in, nil
}

// forgetIn takes a stream out that is over. One that was announced stays until Receive has it.
func (s *Set) forgetIn(in *In) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in[in.id] == in && !in.early {
		delete(s.in, in.id)
	}
}

func (s *Set) findOut(id string) *Out {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out[id]
}

func (s *Set) findIn(id string) *In {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in[id]
}
