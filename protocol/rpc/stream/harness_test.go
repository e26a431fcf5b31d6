package stream

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// item is what the streams of these tests are of.
type item struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// askParams ask the service for a stream of Count items of Size bytes, or give it one.
type askParams struct {
	Count  int                   `json:"count" wire:"optional"`
	Size   int                   `json:"size" wire:"optional"`
	Window *int64                `json:"window" wire:"nullable"`
	Eager  bool                  `json:"eager" wire:"optional"`
	Stream *protocol.StreamParam `json:"stream" wire:"nullable"`
}

type answer struct {
	Stream protocol.StreamRef `json:"stream"`
	Sum    int                `json:"sum"`
}

// service has streams of both directions.
type service struct {
	set *Set
	// made counts the items that were taken from each source, by how many it has.
	mu     sync.Mutex
	made   map[int]int
	closed chan error // takes why each source was closed
	gate   chan struct{}
	err    error // at the end of sources, instead of io.EOF
}

func (s *service) Close() error { return nil }

func (s *service) count(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[n]
}

// source is a Source of items.
func (s *service) source(p *askParams) Source {
	n, gate := 0, s.gate
	return Source{
		Next: func(ctx context.Context) (any, error) {
			if n == p.Count {
				if s.err != nil {
					return nil, s.err
				}
				return nil, io.EOF
			}
			if gate != nil {
				select {
				case <-gate:
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			n++
			s.mu.Lock()
			s.made[p.Count]++
			s.mu.Unlock()
			return item{n, strings.Repeat("x", p.Size)}, nil
		},
		Close: func(err error) { s.closed <- err },
		Eager: p.Eager,
	}
}

func (s *service) ask(ctx context.Context, p *askParams) (*answer, error) {
	o, err := s.set.Reserve(p.Window, protocol.StreamWindow)
	if err != nil {
		return nil, err
	}
	o.Send(ctx, s.source(p))
	return &answer{Stream: o.Ref()}, nil
}

// hold holds up requests to give, until a value is in the gate.
func (s *service) hold(ctx context.Context, _ *askParams) (protocol.Empty, error) {
	select {
	case <-s.gate:
	case <-ctx.Done():
	}
	return protocol.Empty{}, nil
}

// give adds up the numbers of a stream.
func (s *service) give(ctx context.Context, p *askParams) (*answer, error) {
	rpc.Async(ctx)
	in, err := s.set.Receive(ctx, p.Stream)
	if err != nil {
		return nil, err
	}
	sum := 0
	for {
		raw, err := in.Next(ctx)
		if errors.Is(err, io.EOF) {
			in.Close(nil)
			return &answer{Sum: sum}, nil
		}
		var it item
		if err == nil {
			err = wire.Unmarshal(raw, &it)
		}
		if err == nil && it.N < 0 {
			err = errors.New("a negative number")
		}
		if err != nil {
			in.Close(err)
			return nil, err
		}
		sum += it.N
		if s.gate != nil {
			select {
			case <-s.gate:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

func newTable() *rpc.Table {
	t := rpc.NewTable()
	Register(t)
	rpc.Handle(t, rpc.Spec[askParams]{Name: "ask"}, (*service).ask)
	order := rpc.Always[askParams](rpc.Serial("give"))
	rpc.Handle(t, rpc.Spec[askParams]{Name: "give", Order: order}, (*service).give)
	rpc.Handle(t, rpc.Spec[askParams]{Name: "hold", Order: order}, (*service).hold)
	Announce(t, "give", func(s *service, p *askParams) (*Set, *protocol.StreamParam) { return s.set, p.Stream })
	rpc.Handle(t, rpc.Spec[protocol.Empty]{Name: "ping"}, func(*service, context.Context, *protocol.Empty) (protocol.Empty, error) {
		return protocol.Empty{}, nil
	})
	return t
}

// end is the server's end of a connection.
type end struct {
	peer       *rpc.Peer
	dispatcher *rpc.Dispatcher
	service    *service
	done       chan struct{}
}

func (e *end) HandleRequest(ctx context.Context, req *rpc.Request) {
	e.dispatcher.HandleRequest(ctx, req)
}

func (e *end) HandleNotification(_ context.Context, method string, params []byte) error {
	if !e.dispatcher.Takes(method) {
		return errors.New("unexpected " + method)
	}
	return e.dispatcher.HandleNotification(method, params)
}

// serve makes an end that serves until the connection ends, and all of it has.
func serve(conn rpc.Connection, cfg Config) *end {
	table := newTable()
	scope := table.NewScope()
	e := &end{
		dispatcher: rpc.NewDispatcher(scope, rpc.DispatcherConfig{}),
		service:    &service{made: make(map[int]int), closed: make(chan error, 1024)},
		done:       make(chan struct{}),
	}
	e.peer = rpc.NewPeer(conn, rpc.PeerConfig{Handler: e, Unreadable: e.dispatcher.HandleUnreadable})
	e.service.set = New(e.peer, cfg)
	scope.Bind(e.service)
	scope.Bind(e.service.set)
	go func() {
		defer close(e.done)
		ctx, cancel := context.WithCancel(context.Background())
		_ = e.peer.Serve(ctx)
		cancel()
		_ = e.peer.Close()
		e.dispatcher.Wait()
		_ = e.service.set.Close()
	}()
	return e
}

// caller is the client's end.
type caller struct {
	peer *rpc.Peer
	set  *Set
	done chan struct{}
}

func (c *caller) HandleRequest(_ context.Context, req *rpc.Request) { req.ReplyInline(nil, io.EOF) }

func (c *caller) HandleNotification(_ context.Context, method string, params []byte) error {
	_, err := c.set.HandleNotification(method, params)
	return err
}

func call(conn rpc.Connection, cfg Config) *caller {
	c := &caller{done: make(chan struct{})}
	c.peer = rpc.NewPeer(conn, rpc.PeerConfig{Handler: c, Unreadable: func() { c.set.Unreadable() }})
	c.set = New(c.peer, cfg)
	go func() {
		defer close(c.done)
		_ = c.peer.Serve(context.Background())
		_ = c.peer.Close()
		_ = c.set.Close()
	}()
	return c
}

// both makes both ends, which end with the test.
func both(t *testing.T) (*caller, *end) {
	t.Helper()
	a, b := rpc.Pair()
	c, e := call(a, Config{}), serve(b, Config{})
	t.Cleanup(func() {
		_ = c.peer.Close()
		<-c.done
		<-e.done
	})
	return c, e
}

// opened is a result that expects its stream as it is decoded.
type opened struct {
	set    *Set
	window int64
	answer answer
	in     *In
}

func (o *opened) UnmarshalWire(raw []byte) (err error) {
	if err = wire.Unmarshal(raw, &o.answer); err == nil {
		o.in, err = o.set.Expect(o.answer.Stream, o.window)
	}
	return err
}

// ask opens a stream.
func (c *caller) ask(t *testing.T, p askParams) *In {
	t.Helper()
	if p.Window == nil {
		window := int64(protocol.StreamWindow)
		p.Window = &window
	}
	o := &opened{set: c.set, window: *p.Window}
	if err := c.peer.Call(t.Context(), "ask", &p, o); err != nil {
		t.Fatal(err)
	}
	return o.in
}

// give sends a stream, and returns what the service says.
func (c *caller) give(ctx context.Context, src Source) (int, error) {
	o, err := c.set.Reserve(nil, 0)
	if err != nil {
		return 0, err
	}
	o.Send(ctx, src)
	defer func() {
		o.Stop(ErrCancelled)
		<-o.Done()
	}()
	param := o.Param()
	var a answer
	err = c.peer.Call(ctx, "give", &askParams{Stream: &param}, &a)
	return a.Sum, err
}

// next reads an item.
func next(t *testing.T, in *In) item {
	t.Helper()
	raw, err := in.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var it item
	if err := wire.Unmarshal(raw, &it); err != nil {
		t.Fatal(err)
	}
	return it
}

// drain reads to the end.
func drain(t *testing.T, in *In) (count int, err error) {
	t.Helper()
	for {
		raw, err := in.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		var it item
		if err := wire.Unmarshal(raw, &it); err != nil {
			t.Fatal(err)
		}
		if count++; it.N != count {
			t.Fatalf("item %d comes as number %d", it.N, count)
		}
	}
}
