package client

import (
	"context"
	"errors"
	iofs "io/fs"
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// loseStarts does not answer the first n starts: it runs them, if run is true, and
// cuts the connection. Starts and not connections are counted, since one that comes
// before the end of the last was noticed is refused the session.
func loseStarts(s *fakeServer, n int, run bool) {
	var lost atomic.Int32
	s.answer = func(conn *fakeConn, req *rpc.Request) bool {
		if req.Method != protocol.MethodProcessStart || lost.Load() == int32(n) {
			return false
		}
		lost.Add(1)
		if run {
			_, _ = conn.serve(req.Method, req.Params)
		}
		go conn.peer.Close()
		return true
	}
}

func TestStartWhoseAnswerWasLostIsRepeated(t *testing.T) {
	for name, run := range map[string]bool{"It had run": true, "It had not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(t)
				loseStarts(s, 2, run)
				c := s.open(t, nil)
				p, err := c.Start(t.Context(), Command{Argv: []string{"x"}, ID: "p"})
				if err != nil {
					t.Fatal(err)
				}
				starts := s.called(protocol.MethodProcessStart)
				if len(starts) != 3 || string(starts[0].params) != string(starts[2].params) {
					t.Fatalf("started with %d calls", len(starts))
				}
				synctest.Wait()
				want := 0
				if run {
					want = 1
				}
				if n := s.count(protocol.MethodProcessRead); n != want {
					t.Errorf("%d reads, want %d", n, want)
				}
				proc := s.process(t, p)
				send(proc.print("stdout", "x"), proc.exit(0), proc.end())
				wantOutput(t, p, "x", "")
				wantExit(t, p, ExitStatus{})
			})
		})
	}
}

func TestStartIsNotRepeatedOnTheOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.caps = nil
		loseStarts(s, 1, true)
		c := s.open(t, nil)
		_, err := c.Start(t.Context(), Command{Argv: []string{"x"}})
		if !errors.Is(err, ErrMayHaveRun) || !errors.Is(err, ErrTransportClosed) {
			t.Errorf("got %v", err)
		}
		if n := s.count(protocol.MethodProcessStart); n != 1 {
			t.Errorf("started %d times", n)
		}
		s.await(t, protocol.MethodProcessTerminate, 1) // in case it runs
	})
}

// A session that was lost may have run the start: another must not run it again.
func TestStartIsNotRepeatedInAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.answer = func(conn *fakeConn, req *rpc.Request) bool {
			if req.Method != protocol.MethodProcessStart {
				return false
			}
			s.forgetSessions()
			go conn.peer.Close()
			return true
		}
		c := s.open(t, nil)
		_, err := c.Start(t.Context(), Command{Argv: []string{"x"}})
		if !errors.Is(err, ErrSessionLost) {
			t.Errorf("got %v", err)
		}
		if n := s.count(protocol.MethodProcessStart); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

// newStart makes a process whose start is yet to be sent.
func newStart(t *testing.T, c *Client, id string) (*Process, *protocol.StartParams) {
	t.Helper()
	params, err := c.startParams(t.Context(), &Command{Argv: []string{"x"}, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	p := c.newProcess(params)
	if err := c.register(p); err != nil {
		t.Fatal(err)
	}
	return p, params
}

// loseSession has the client connect again to a server that has started anew.
func loseSession(t *testing.T, s *fakeServer, c *Client) {
	t.Helper()
	s.forgetSessions()
	s.cut()
	synctest.Wait()
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// A start that was not sent before its session was lost runs in the next, and is followed.
func TestStartBegunBeforeTheSessionWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		before := c.SessionID()
		p, params := newStart(t, c, "p")
		loseSession(t, s, c)
		if now := c.SessionID(); now == before {
			t.Fatalf("the session is still %s", now)
		}
		p.start(t.Context(), params)
		if err := p.settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		proc := s.process(t, p)
		send(proc.print("stdout", "x"), proc.exit(0), proc.end())
		wantOutput(t, p, "x", "")
		wantExit(t, p, ExitStatus{})
		if err := p.Err(); err != nil {
			t.Error(err)
		}
	})
}

// A process whose session is lost between the answer to its start and what follows it
// is lost with it.
func TestSessionIsLostAsTheStartIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, params := newStart(t, c, "p")
		l, err := c.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.send(l); err != nil {
			t.Fatal(err)
		}
		if err := l.peer.Call(t.Context(), protocol.MethodProcessStart, params, nil); err != nil {
			t.Fatal(err)
		}
		loseSession(t, s, c)
		p.begin(l, false)
		if _, err := p.Wait(t.Context()); !errors.Is(err, ErrSessionLost) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancelledStartIsTerminated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		held := make(chan *rpc.Request, 1)
		s.answer = func(_ *fakeConn, req *rpc.Request) bool {
			if req.Method != protocol.MethodProcessStart {
				return false
			}
			held <- req
			return true
		}
		c := s.open(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Start(ctx, Command{Argv: []string{"x"}, ID: "p"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		if n := s.count(protocol.MethodProcessTerminate); n != 0 {
			t.Errorf("terminated before it was started")
		}
		(<-held).ReplyInline(protocol.StartResult{ProcessID: "p", SandboxType: "none"}, nil)
		call := s.await(t, protocol.MethodProcessTerminate, 1)
		if params := decode[protocol.TerminateParams](call.params); params.ProcessID != "p" {
			t.Errorf("terminated %q", params.ProcessID)
		}
	})
}

func TestFailedStart(t *testing.T) {
	s := newFake(t)
	c := s.open(t, nil)
	_, err := c.Start(t.Context(), Command{ID: "p"})
	if !errors.Is(err, exec.ErrNotFound) || !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if failure, ok := errors.AsType[*Error](err); !ok || failure.Kind != protocol.KindSpawnNotFound || failure.Errno() != 2 {
		t.Errorf("got %#v", err)
	}
	if _, err := c.Start(t.Context(), Command{ID: "p", Argv: []string{"x"}}); err != nil {
		t.Errorf("the id is taken: %v", err)
	}
	if _, err := c.Start(t.Context(), Command{ID: "p", Argv: []string{"x"}}); err == nil {
		t.Error("two processes of one id")
	}
}

// What a server does not announce is not asked of it.
func TestUnsupported(t *testing.T) {
	s := newFake(t)
	s.caps = nil
	c := s.open(t, nil)
	ctx := t.Context()
	p, proc := start(t, s, c)
	for name, call := range map[string]func() error{
		"Resize": func() error { return p.Resize(ctx, protocol.TerminalSize{Rows: 1, Cols: 1}) },
		"Signal": func() error { return p.Signal(ctx, "TERM") },
		"Close":  p.Stdin.Close,
		"Size": func() error {
			_, err := c.Start(ctx, Command{TTY: true, Size: protocol.TerminalSize{Rows: 9, Cols: 9}})
			return err
		},
		"Timeout":   func() error { _, err := c.Start(ctx, Command{Timeout: time.Second}); return err },
		"Processes": func() error { _, err := c.Processes(ctx, ScopeServer); return err },
		"Glob":      func() error { _, err := c.Glob(ctx, "/", "*", nil); return err },
		"Grep":      func() error { _, err := c.Grep(ctx, "/", "x", nil); return err },
		"Watch":     func() error { _, err := c.Watch(ctx, "/", nil); return err },
		"Rename":    func() error { return c.Rename(ctx, "/a", "/b") },
		"Symlink":   func() error { return c.Symlink(ctx, "a", "/b") },
		"ReadLink":  func() error { _, err := c.ReadLink(ctx, "/b"); return err },
		"Chmod":     func() error { return c.Chmod(ctx, "/b", 0o644) },
		"Create":    func() error { _, err := c.Create(ctx, "/b", nil); return err },
		"IfMatch":   func() error { _, err := c.WriteFile(ctx, "/b", nil, &WriteOptions{IfMatch: "x"}); return err },
		"StatHash":  func() error { _, err := c.StatHash(ctx, "/b"); return err },
	} {
		before := len(s.calls)
		if err := call(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if len(s.calls) != before {
			t.Errorf("%s: asked the server", name)
		}
	}
	if err := p.Signal(ctx, "SIGINT"); err != nil { // the one signal that every server has
		t.Error(err)
	}
	send(proc.exit(0), proc.end())
	wantExit(t, p, ExitStatus{})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble ends when no goroutine is left
		s := newFake(t)
		s.answer = func(_ *fakeConn, req *rpc.Request) bool { return req.Method == protocol.MethodFsRename }
		c := s.open(t, nil)
		p, _ := start(t, s, c)
		w, err := c.Watch(t.Context(), "/srv", nil)
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 4)
		go func() { results <- c.Rename(t.Context(), "/a", "/b") }()
		go func() { _, err := p.Wait(t.Context()); results <- err }()
		go func() { _, err := p.Stdout.Read(make([]byte, 1)); results <- err }()
		go func() { _, err := w.Next(t.Context()); results <- err }()
		synctest.Wait()
		go func() { _ = c.Close() }()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for range cap(results) {
			if err := <-results; !errors.Is(err, ErrTransportClosed) {
				t.Errorf("got %v", err)
			}
		}
		if n := s.count(protocol.MethodProcessTerminate); n != 1 {
			t.Errorf("%d processes terminated", n)
		}
		if _, err := c.Stat(t.Context(), "/x"); !errors.Is(err, ErrClosed) {
			t.Errorf("call: %v", err)
		}
		if _, err := c.Start(t.Context(), Command{}); !errors.Is(err, ErrClosed) {
			t.Errorf("start: %v", err)
		}
	})
}

func TestCloseWithoutConnecting(t *testing.T) {
	c := Open(newFake(t), nil)
	_ = c.Close()
	if err := c.Connect(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestCloseWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.connect = func(attempt int) (rpc.Connection, rpc.Connection, error) {
			if attempt > 1 {
				return nil, nil, errRefused
			}
			a, b := rpc.Pair()
			return a, b, nil
		}
		c := s.open(t, nil)
		p, _ := start(t, s, c)
		s.cut()
		synctest.Wait()
		_ = c.Close()
		if _, err := p.Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
