package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

var errRefused = errors.New("connection refused")

func TestBackoff(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBackoff(Reconnect{MinDelay: 100 * time.Millisecond, MaxDelay: time.Second}, 20*time.Second, now, rand.New(rand.NewPCG(1, 2)))
	for i, base := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		base *= time.Millisecond
		delay, ok := b.next(now, false)
		if !ok || delay < base/2 || delay >= base*3/2 {
			t.Errorf("attempt %d: %v, %v; want about %v", i, delay, ok, base)
		}
	}
	if delay, ok := b.next(now, true); !ok || delay < attachedDelay/2 || delay >= attachedDelay*3/2 {
		t.Errorf("attached: %v, %v", delay, ok)
	}
	if _, ok := b.next(now.Add(20*time.Second), true); ok {
		t.Error("goes on after the grace")
	}
	b = newBackoff(Reconnect{MinDelay: time.Second, MaxDelay: time.Second}, 0, now, rand.New(rand.NewPCG(1, 2)))
	if _, ok := b.next(now.Add(70*time.Second), false); !ok {
		t.Error("gives up within the wire's grace")
	}
	if _, ok := b.next(now.Add(protocol.SessionGrace), false); ok {
		t.Error("goes on after the wire's grace")
	}
}

func TestReconnectBacksOffAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		var attempts []time.Duration
		began := time.Now()
		s.connect = func(attempt int) (rpc.Connection, rpc.Connection, error) {
			attempts = append(attempts, time.Since(began))
			if attempt > 1 && attempt < 8 {
				return nil, nil, errRefused
			}
			a, b := rpc.Pair()
			return a, b, nil
		}
		var mu sync.Mutex
		var states []StateChange
		c := s.open(t, &Options{OnState: func(change StateChange) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, change)
		}})
		p, proc := start(t, s, c)
		s.cut()
		synctest.Wait()
		if c.Connected() {
			t.Error("connected without a connection")
		}
		// A call that begins meanwhile waits.
		if err := p.Terminate(t.Context()); err != nil {
			t.Errorf("terminate: %v", err)
		}
		if len(attempts) != 8 {
			t.Fatalf("%d attempts", len(attempts))
		}
		if attempts[1] != 0 {
			t.Errorf("first attempt after %v", attempts[1])
		}
		if total := attempts[7]; total < 3*time.Second || total > 10*time.Second {
			t.Errorf("seventh attempt after %v", total)
		}
		send(proc.exit(0), proc.end())
		wantExit(t, p, ExitStatus{})
		synctest.Wait() // calls go through before it is told
		mu.Lock()
		defer mu.Unlock()
		if len(states) != 10 || states[1].State != StateConnected || states[1].Resumed ||
			states[2].Err == nil || states[3].Attempt != 2 || !errors.Is(states[3].Err, errRefused) || !states[9].Resumed {
			t.Errorf("states %+v", states)
		}
	})
}

func TestGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault error
		after time.Duration
	}{
		{"After the grace", errRefused, protocol.SessionGrace},
		{"At once when the token is refused", &RefusedError{Status: http.StatusUnauthorized}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(t)
				s.connect = func(attempt int) (rpc.Connection, rpc.Connection, error) {
					if attempt > 1 {
						return nil, nil, tt.fault
					}
					a, b := rpc.Pair()
					return a, b, nil
				}
				c := s.open(t, nil)
				p, _ := start(t, s, c)
				w, err := c.Watch(t.Context(), "/srv", nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				s.cut()
				if _, err := p.Wait(t.Context()); !errors.Is(err, ErrTransportClosed) || !errors.Is(err, tt.fault) {
					t.Errorf("wait: %v", err)
				}
				if _, err := w.Next(t.Context()); !errors.Is(err, ErrTransportClosed) {
					t.Errorf("watch: %v", err)
				}
				if d := time.Since(began); d < tt.after-10*time.Second || d > tt.after {
					t.Errorf("gave up after %v", d)
				}
				if _, err := c.Stat(t.Context(), "/x"); !errors.Is(err, ErrTransportClosed) {
					t.Errorf("call: %v", err)
				}
				if err := c.Err(); !errors.Is(err, tt.fault) {
					t.Errorf("err: %v", err)
				}
			})
		})
	}
}

func TestFirstConnectionFailsAtOnce(t *testing.T) {
	s := newFake(t)
	s.connect = func(int) (rpc.Connection, rpc.Connection, error) { return nil, nil, errRefused }
	c := Open(s, nil)
	defer c.Close()
	if _, err := c.Stat(t.Context(), "/x"); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.answer = func(*fakeConn, *rpc.Request) bool { return true } // never answers
		c := Open(s, &Options{ConnectTimeout: 3 * time.Second})
		defer c.Close()
		began := time.Now()
		if err := c.Connect(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("after %v", d)
		}
		s.cut()
	})
}

// Concurrent first calls connect once.
func TestConnectsOnce(t *testing.T) {
	s := newFake(t)
	c := Open(s, nil)
	defer c.Close()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := c.Environment(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.count(protocol.MethodInitialize); n != 1 {
		t.Errorf("initialized %d times", n)
	}
}

func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.answer = func(_ *fakeConn, req *rpc.Request) bool { return req.Method == protocol.MethodFsRename }
		c := s.open(t, nil)
		done := make(chan error)
		go func() { done <- c.Rename(t.Context(), "/a", "/b") }()
		s.await(t, protocol.MethodFsRename, 1)
		s.cut()
		if err := <-done; !errors.Is(err, ErrTransportClosed) || !errors.Is(err, ErrMayHaveRun) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := s.count(protocol.MethodFsRename); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
}

func TestCallHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.answer = func(_ *fakeConn, req *rpc.Request) bool { return req.Method == protocol.MethodFsRename }
		c := s.open(t, &Options{CallTimeout: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Rename(ctx, "/a", "/b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		began := time.Now()
		if err := c.Rename(t.Context(), "/a", "/b"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if !c.Connected() {
			t.Error("giving up a call ended the connection")
		}
	})
}

// A write is sent again with its id, which is what makes it harmless.
func TestStdinIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		cuts := 0
		s.answer = func(conn *fakeConn, req *rpc.Request) bool {
			if req.Method != protocol.MethodProcessWrite || cuts >= 3 {
				return false
			}
			cuts++
			if cuts != 2 { // taken, but the answer is lost; or not even taken
				_, _ = conn.serve(req.Method, req.Params)
			}
			go conn.peer.Close()
			return true
		}
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		var want bytes.Buffer
		for i := range 6 {
			piece := bytes.Repeat([]byte{byte('a' + i)}, 300<<10)
			want.Write(piece)
			if n, err := p.Stdin.Write(piece); err != nil || n != len(piece) {
				t.Fatalf("write %d: %d, %v", i, n, err)
			}
		}
		if err := p.Stdin.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(proc.stdin, want.Bytes()) {
			t.Errorf("the process read %d bytes, want %d, or others", len(proc.stdin), want.Len())
		}
		if n := s.count(protocol.MethodProcessCloseStdin); n != 1 {
			t.Errorf("closed %d times", n)
		}
		if _, err := p.Stdin.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write after close: %v", err)
		}
		send(proc.exit(0), proc.end())
		wantExit(t, p, ExitStatus{})
	})
}

func TestWatchGoesOnWithAnOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		w, err := c.Watch(t.Context(), "/srv", &WatchOptions{Shallow: true, Exclude: []string{"*.o"}})
		if err != nil {
			t.Fatal(err)
		}
		id := w.params.WatchID
		report := func(overflow bool, paths ...string) {
			params := protocol.ChangedParams{WatchID: id, Overflow: overflow}
			for _, path := range paths {
				params.Changes = append(params.Changes, protocol.PathChange{Path: "file://" + path, Kind: protocol.ChangeCreated})
			}
			s.mu.Lock()
			conn := s.conns[len(s.conns)-1]
			s.mu.Unlock()
			_ = conn.peer.Notify(t.Context(), protocol.NotifyFsChanged, params)
		}
		next := func() Changes {
			t.Helper()
			got, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		report(false, "/srv/a%20b")
		if got := next(); len(got.Changes) != 1 || got.Changes[0] != (Change{"/srv/a b", "created"}) || got.Overflow {
			t.Errorf("got %+v", got)
		}
		s.cut()
		if got := next(); len(got.Changes) != 0 || !got.Overflow {
			t.Errorf("after a cut: %+v", got)
		}
		if n := s.count(protocol.MethodFsWatch); n != 2 {
			t.Errorf("watched %d times", n)
		}
		report(false, "/srv/c")
		if got := next(); len(got.Changes) != 1 || got.Overflow {
			t.Errorf("got %+v", got)
		}
		// A reader that does not read costs no memory.
		many := make([]string, 1000)
		for i := range many {
			many[i] = "/srv/x"
		}
		for range maxQueuedChanges/1000 + 2 {
			report(false, many...)
		}
		synctest.Wait()
		if got := next(); !got.Overflow || len(got.Changes) > maxQueuedChanges {
			t.Errorf("%d changes, overflow %v", len(got.Changes), got.Overflow)
		}
		_ = w.Close()
		if _, err := w.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
		s.await(t, protocol.MethodFsUnwatch, 1)
	})
}

// A Watch that is closed while it is set on a new connection does not stay set there.
func TestWatchClosedWhileItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		renewals := make(chan *rpc.Request, 1)
		s.answer = func(conn *fakeConn, req *rpc.Request) bool {
			if req.Method != protocol.MethodFsWatch || conn.number == 1 {
				return false
			}
			renewals <- req
			return true
		}
		c := s.open(t, nil)
		w, err := c.Watch(t.Context(), "/srv", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.cut()
		renewal := <-renewals
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		s.await(t, protocol.MethodFsUnwatch, 1) // as if it had been sent before the renewal
		renewal.ReplyInline(protocol.WatchResult{}, nil)
		synctest.Wait()
		if n := s.count(protocol.MethodFsUnwatch); n != 2 {
			t.Errorf("%d fs/unwatch, want one after the watch was set", n)
		}
		if _, err := w.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Next: %v", err)
		}
	})
}
