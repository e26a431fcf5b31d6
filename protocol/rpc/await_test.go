package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/handoff"
)

// A fakeSocket hands out the messages of several connections, one goroutine at a time.
type fakeSocket struct {
	arrivals chan func(turn *handoff.Turn)
	mu       sync.Mutex
	hands    int // goroutines that have handed out
}

func newFakeSocket(t *testing.T) *fakeSocket {
	s := &fakeSocket{arrivals: make(chan func(*handoff.Turn), 4*protocol.MaxRequestsInFlight)}
	t.Cleanup(func() { close(s.arrivals) })
	s.readOn()
	return s
}

func (s *fakeSocket) readOn() {
	s.mu.Lock()
	s.hands++
	s.mu.Unlock()
	go func() {
		turn := handoff.NewTurn(s.readOn)
		for arrival := range s.arrivals {
			if arrival(turn); !turn.Held() {
				return
			}
		}
	}()
}

// A fakeConn is one of its connections.
type fakeConn struct {
	socket *fakeSocket
	out    chan string

	mu    sync.Mutex
	queue []string
	err   error
	takes Taker
	fault int // it was closed with
}

func (s *fakeSocket) open() *fakeConn {
	return &fakeConn{socket: s, out: make(chan string, 4*protocol.MaxRequestsInFlight)}
}

// send has messages arrive.
func (c *fakeConn) send(msgs ...string) {
	for _, msg := range msgs {
		c.sendTogether(msg)
	}
}

// sendTogether has the last of a message arrive, behind which others have come already.
func (c *fakeConn) sendTogether(msgs ...string) {
	c.socket.arrivals <- func(turn *handoff.Turn) {
		c.mu.Lock()
		c.queue = append(c.queue, msgs...)
		takes := c.takes
		var msg string
		if takes != nil {
			msg, c.queue, c.takes = c.queue[0], c.queue[1:], nil
		}
		c.mu.Unlock()
		if takes != nil {
			takes([]byte(msg), nil, turn)
		}
	}
}

func (c *fakeConn) end(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	takes := c.takes
	c.takes = nil
	c.mu.Unlock()
	if takes != nil {
		takes(nil, err, nil)
	}
}

func (c *fakeConn) Await(takes Taker) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.queue) > 0:
		msg := c.queue[0]
		c.queue = c.queue[1:]
		return []byte(msg), nil
	case c.err != nil:
		return nil, c.err
	}
	c.takes = takes
	return nil, nil
}

func (c *fakeConn) Forget() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.takes != nil
	c.takes = nil
	return had
}

func (c *fakeConn) Read(context.Context) ([]byte, error) { panic("a Peer awaits") }

func (c *fakeConn) Write(_ context.Context, msg []byte) error {
	c.out <- string(msg)
	return nil
}

func (c *fakeConn) Close() error {
	c.end(ErrClosed)
	return nil
}

func (c *fakeConn) CloseFault(code int, _ string) error {
	c.fault = code
	return c.Close()
}

// want waits for messages from the Peer.
func (c *fakeConn) want(t *testing.T, msgs ...string) {
	t.Helper()
	for _, want := range msgs {
		select {
		case got := <-c.out:
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("waited in vain for %s", want)
		}
	}
}

// awaited serves quickTable on two connections of a socket.
func awaited(t *testing.T, body func(s *fakeSocket, a, b *fakeConn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket(t)
		conns := []*fakeConn{s.open(), s.open()}
		var wg sync.WaitGroup
		for _, c := range conns {
			scope := quickTable().NewScope()
			scope.Bind(slow{})
			d := NewDispatcher(scope, DispatcherConfig{})
			p := NewPeer(c, PeerConfig{Handler: dispatching{d}})
			wg.Go(func() {
				if err := p.Serve(context.Background()); err != nil {
					t.Errorf("Serve: %v", err)
				}
				_ = p.Close()
				d.Wait()
			})
		}
		synctest.Wait()
		body(s, conns[0], conns[1])
		for _, c := range conns {
			c.end(io.EOF)
		}
		wg.Wait()
	})
}

// Messages are handled where they arrive: nobody else receives, however many they are.
func TestAwaitHandlesInPlace(t *testing.T) {
	awaited(t, func(s *fakeSocket, a, b *fakeConn) {
		for i := range 100 {
			msg := fmt.Sprintf(`{"id":%d,"method":"quick","params":{"name":"a"}}`, i)
			a.send(msg)
			b.send(msg)
			a.want(t, fmt.Sprintf(`{"id":%d,"result":{"name":"a"}}`, i))
			b.want(t, fmt.Sprintf(`{"id":%d,"result":{"name":"a"}}`, i))
		}
		if s.hands != 1 {
			t.Errorf("%d goroutines have handed out", s.hands)
		}
	})
}

// A request that turns out slow holds up neither another connection nor the rest of its
// own, for longer than twice quickTime.
func TestAwaitThatIsSlow(t *testing.T) {
	awaited(t, func(_ *fakeSocket, a, b *fakeConn) {
		began := time.Now()
		a.send(`{"id":1,"method":"deaf","params":{"name":"a","ms":50000}}`, `{"id":2,"method":"quick","params":{"name":"b"}}`)
		b.send(`{"id":3,"method":"quick","params":{"name":"a"}}`)
		b.want(t, `{"id":3,"result":{"name":"a"}}`)
		a.want(t, `{"id":2,"result":{"name":"b"}}`)
		if took := time.Since(began); took > 2*quickTime {
			t.Errorf("others were held up for %v", took)
		}
		a.want(t, `{"id":1,"result":{"name":"a"}}`)
	})
}

// Nor do many that are quick, each by itself, when they are there at once.
func TestAwaitThatAreMany(t *testing.T) {
	awaited(t, func(_ *fakeSocket, a, b *fakeConn) {
		const count = 100
		var msgs, answers []string
		for i := range count {
			msgs = append(msgs, fmt.Sprintf(`{"id":%d,"method":"deaf","params":{"name":"a","ms":1}}`, i))
			answers = append(answers, fmt.Sprintf(`{"id":%d,"result":{"name":"a"}}`, i))
		}
		began := time.Now()
		a.sendTogether(msgs...)
		b.send(`{"id":1,"method":"quick","params":{"name":"b"}}`)
		b.want(t, `{"id":1,"result":{"name":"b"}}`)
		if took := time.Since(began); took > 2*quickTime {
			t.Errorf("others were held up for %v", took)
		}
		a.want(t, answers...)
	})
}

// A long message is parsed on no goroutine that others are received on.
func TestAwaitThatIsLong(t *testing.T) {
	awaited(t, func(s *fakeSocket, a, b *fakeConn) {
		long := strings.Repeat("a", maxInPlace)
		a.send(`{"id":1,"method":"quick","params":{"name":"`+long+`"}}`, `{"id":2,"method":"quick","params":{"name":"a"}}`)
		a.want(t, `{"id":1,"result":{"name":"`+long+`"}}`, `{"id":2,"result":{"name":"a"}}`)
		synctest.Wait()
		b.send(`{"id":3,"method":"quick","params":{"name":"b"}}`)
		b.want(t, `{"id":3,"result":{"name":"b"}}`)
		if s.hands != 2 {
			t.Errorf("%d goroutines have handed out, not 2", s.hands)
		}
	})
}

// What is too large ends an Awaiter as it does other connections.
func TestAwaitTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeSocket(t).open()
		p := NewPeer(c, PeerConfig{})
		served := make(chan error)
		go func() { served <- p.Serve(context.Background()) }()
		synctest.Wait()
		c.end(ErrTooLarge)
		if err := <-served; err == nil || c.fault != CloseTooLarge || p.Err() == nil {
			t.Errorf("Serve: %v, and the connection was closed with %d", err, c.fault)
		}
	})
}

// One that says it will wait holds up nobody at all.
func TestAwaitThatWaits(t *testing.T) {
	awaited(t, func(s *fakeSocket, a, b *fakeConn) {
		began := time.Now()
		a.send(
			`{"id":1,"method":"waits","params":{"name":"a","ms":50000}}`,
			`{"id":2,"method":"waits","params":{"name":"b","ms":40000}}`,
			`{"id":3,"method":"quick","params":{"name":"c"}}`,
		)
		b.send(`{"id":4,"method":"quick","params":{"name":"a"}}`)
		a.want(t, `{"id":3,"result":{"name":"c"}}`)
		b.want(t, `{"id":4,"result":{"name":"a"}}`)
		if took := time.Since(began); took != 0 {
			t.Errorf("it was waited for %v", took)
		}
		a.want(t, `{"id":2,"result":{"name":"b"}}`, `{"id":1,"result":{"name":"a"}}`)
	})
}

// A client with too many requests unanswered waits for them, and nobody else does.
func TestAwaitFullWindow(t *testing.T) {
	awaited(t, func(_ *fakeSocket, a, b *fakeConn) {
		const more = 5
		for i := range protocol.MaxRequestsInFlight + more {
			a.send(fmt.Sprintf(`{"id":%d,"method":"waits","params":{"name":"%d","ms":50000}}`, i+1, i))
		}
		synctest.Wait()
		if waiting := len(a.queue); waiting != more {
			t.Errorf("%d wait, not %d", waiting, more)
		}
		b.send(`{"id":1,"method":"quick","params":{"name":"a"}}`)
		b.want(t, `{"id":1,"result":{"name":"a"}}`)
		for range protocol.MaxRequestsInFlight + more {
			<-a.out
		}
	})
}

// handOffs hands off every third request, and holds on to it.
type handOffs struct {
	mu       sync.Mutex
	order    []string
	handling int
	fault    error
	hang     chan struct{} // until it is closed; nil is not at all
}

func (h *handOffs) HandleRequest(_ context.Context, req *Request) {
	h.mu.Lock()
	h.order = append(h.order, string(req.Params))
	if h.handling++; h.handling > 1 {
		h.fault = errors.New("two at a time")
	}
	handOff := len(h.order)%3 == 0
	h.mu.Unlock()
	if h.hang != nil {
		<-h.hang
	}
	runtime.Gosched()
	h.mu.Lock()
	h.handling--
	h.mu.Unlock()
	if handOff {
		req.HandOff()
		req.HandOff()
	}
	req.Reply(nil, nil)
}

func (h *handOffs) HandleNotification(context.Context, string, []byte) error { return nil }

// However often it is handed off, messages are handled once each, in order, one at a time.
func TestAwaitOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newFakeSocket(t), new(handOffs)
		c := s.open()
		p := NewPeer(c, PeerConfig{Handler: h})
		served := make(chan error)
		go func() { served <- p.Serve(context.Background()) }()
		const count = 100
		for i := range count {
			c.send(fmt.Sprintf(`{"id":1,"method":"x","params":%d}`, i))
		}
		for range count {
			<-c.out
		}
		c.end(io.EOF)
		if err := <-served; err != nil {
			t.Error(err)
		}
		if h.fault != nil {
			t.Error(h.fault)
		}
		for i, got := range h.order {
			if got != fmt.Sprint(i) {
				t.Fatalf("%d-th handled: %s", i, got)
			}
		}
	})
}

// The end of Serve's context ends it whether something is awaited or handled, and what
// comes later is not handled.
func TestAwaitContextEnds(t *testing.T) {
	for name, msg := range map[string]string{"awaited": "", "handled": `{"id":1,"method":"x","params":0}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newFakeSocket(t), new(handOffs)
				c := s.open()
				p := NewPeer(c, PeerConfig{Handler: h})
				served := make(chan error)
				ctx, cancel := context.WithCancelCause(context.Background())
				go func() { served <- p.Serve(ctx) }()
				synctest.Wait()
				h.hang = make(chan struct{})
				if msg != "" {
					c.send(msg)
					synctest.Wait()
				}
				why := errors.New("over")
				cancel(why)
				close(h.hang)
				if err := <-served; !errors.Is(err, why) {
					t.Errorf("Serve: %v", err)
				}
				before := len(h.order)
				c.send(`{"id":2,"method":"x","params":0}`)
				synctest.Wait()
				if len(h.order) != before {
					t.Error("a message was handled after the end")
				}
				_ = p.Close()
			})
		})
	}
}

// A connection that ends in any moment ends Serve.
func TestAwaitCloseRaces(t *testing.T) {
	for i := range 200 {
		s, h := newFakeSocket(t), new(handOffs)
		c := s.open()
		p := NewPeer(c, PeerConfig{Handler: h})
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error)
		go func() { served <- p.Serve(ctx) }()
		for range 6 {
			c.send(`{"id":1,"method":"x","params":0}`)
		}
		if i%2 == 0 {
			cancel()
		} else {
			_ = p.Close()
		}
		<-served
		_ = p.Close()
		cancel()
	}
}

// Each message counts once, whether it is awaited, taken later or read.
func TestMessagesCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received, sent []int
		cfg := PeerConfig{
			Received: func(n int) { received = append(received, n) },
			Sent:     func(n int) { sent = append(sent, n) },
		}
		serve := func(c Connection, body func()) {
			received, sent = nil, nil
			p := NewPeer(c, cfg)
			done := make(chan error, 1)
			go func() { done <- p.Serve(context.Background()) }()
			synctest.Wait()
			body()
			synctest.Wait()
			_ = p.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if len(received) != 2 || received[0] != 12 || received[1] != 13 || len(sent) != 2 || sent[0] < 50 {
				t.Errorf("received %v, sent %v", received, sent)
			}
		}
		const first, second = `no message 1`, `no message 12` // each is answered with an error
		socket := newFakeSocket(t)
		a := socket.open()
		serve(a, func() { a.sendTogether(first, second); synctest.Wait(); a.end(io.EOF) })
		near, far := Pair()
		serve(near, func() {
			for _, msg := range []string{first, second} {
				if err := far.Write(t.Context(), []byte(msg)); err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
			_ = far.Close()
		})
	})
}
