package client

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// start starts a process on the fake server.
func start(t *testing.T, s *fakeServer, c *Client) (*Process, *fakeProcess) {
	t.Helper()
	p, err := c.Start(t.Context(), Command{Argv: []string{"program"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	return p, s.process(t, p)
}

func wantOutput(t *testing.T, p *Process, stdout, stderr string) {
	t.Helper()
	for _, tt := range []struct {
		stream *Stream
		want   string
	}{{p.Stdout, stdout}, {p.Stderr, stderr}} {
		got, err := io.ReadAll(tt.stream)
		if err != nil {
			t.Errorf("read: %v", err)
		}
		if string(got) != tt.want {
			t.Errorf("got output %q, want %q", got, tt.want)
		}
	}
}

func wantExit(t *testing.T, p *Process, want ExitStatus) {
	t.Helper()
	got, err := p.Wait(t.Context())
	if err != nil {
		t.Errorf("wait: %v", err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The rows of exec-rpc.md, section 7, in their order.

func TestCompleteStreamNeedsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		send(proc.print("stdout", "a"), proc.print("stderr", "e"), proc.print("stdout", "b"), proc.exit(3), proc.end())
		wantOutput(t, p, "ab", "e")
		wantExit(t, p, ExitStatus{Code: 3})
		time.Sleep(time.Hour)
		if n := s.count(protocol.MethodProcessRead); n != 0 {
			t.Errorf("%d reads", n)
		}
		if p.Seq() != 5 {
			t.Errorf("seq %d", p.Seq())
		}
	})
}

func TestExitWithoutSandboxDeniedNeedsOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		proc.denied = true
		send(proc.print("stdout", "a"), proc.exit(1).older(), proc.end())
		wantExit(t, p, ExitStatus{Code: 1, SandboxDenied: true})
		wantOutput(t, p, "a", "")
		time.Sleep(time.Hour)
		if n := s.count(protocol.MethodProcessRead); n != 1 {
			t.Fatalf("%d reads", n)
		}
		read := decode[protocol.ReadParams](s.called(protocol.MethodProcessRead)[0].params)
		if *read.AfterSeq != 1 || read.MaxBytes != nil || *read.WaitMs != 0 {
			t.Errorf("read %d, %v, %v", *read.AfterSeq, read.MaxBytes, read.WaitMs)
		}
	})
}

func TestEventsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		one, two, exit, three, end := proc.print("stdout", "1"), proc.print("stdout", "2"), proc.exit(0), proc.print("stdout", "3"), proc.end()
		send(end, exit, two, two)
		synctest.Wait()
		if p.Seq() != 0 {
			t.Errorf("seq %d before the first event", p.Seq())
		}
		send(one)
		synctest.Wait()
		if p.Seq() != 3 {
			t.Errorf("seq %d with a hole at 4", p.Seq())
		}
		select {
		case <-p.Done():
			t.Error("done before the output is complete")
		default:
		}
		send(three)
		wantOutput(t, p, "123", "")
		wantExit(t, p, ExitStatus{})
		time.Sleep(time.Hour)
		if n := s.count(protocol.MethodProcessRead); n != 0 {
			t.Errorf("%d reads", n)
		}
	})
}

// Neighbours that keep changing places are not a hole, however long it goes on.
func TestReorderingIsNoHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		_ = p.Stderr.Close()
		held := proc.print("stderr", "x")
		for range 20 {
			next, after := proc.print("stderr", "x"), proc.print("stderr", "x")
			send(next, held) // the hole is filled, and there is another
			held = after
			time.Sleep(holeDelay / 2)
		}
		send(held)
		synctest.Wait()
		if n := s.count(protocol.MethodProcessRead); n != 0 {
			t.Errorf("%d reads", n)
		}
	})
}

// Unlike the real client, which waits for ever, this one asks for what is missing.
func TestHoleIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		first, lost, third := proc.print("stdout", "1"), proc.print("stdout", "2"), proc.print("stdout", "3")
		_ = lost
		send(first, third)
		began := time.Now()
		buf := make([]byte, 3)
		if _, err := io.ReadFull(p.Stdout, buf); err != nil || string(buf) != "123" {
			t.Fatalf("%q, %v", buf, err)
		}
		if d := time.Since(began); d < holeDelay || d > 2*holeDelay {
			t.Errorf("recovered after %v", d)
		}
		lostExit := proc.exit(0)
		_ = lostExit
		send(proc.end())
		wantExit(t, p, ExitStatus{})
		if n := s.count(protocol.MethodProcessRead); n != 2 {
			t.Errorf("%d reads", n)
		}
	})
}

func TestLostEndNeedsOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		send(proc.print("stdout", "1"), proc.exit(0))
		_ = proc.end() // not sent
		began := time.Now()
		wantExit(t, p, ExitStatus{})
		wantOutput(t, p, "1", "")
		if d := time.Since(began); d != closedDelay {
			t.Errorf("done after %v", d)
		}
		if n := s.count(protocol.MethodProcessRead); n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

// A descendant that holds the output open is asked about once, and then waited for.
func TestDescendantHoldsTheOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		send(proc.exit(0))
		time.Sleep(time.Hour)
		if n := s.count(protocol.MethodProcessRead); n != 1 {
			t.Errorf("%d reads", n)
		}
		send(proc.print("stdout", "late"), proc.end())
		wantOutput(t, p, "late", "")
	})
}

func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		other, otherProc := start(t, s, c)
		send(proc.print("stdout", "1"), otherProc.print("stdout", "x"))
		synctest.Wait()
		_ = proc.print("stdout", "2") // not sent any more
		s.cut()
		s.await(t, protocol.MethodProcessRead, 2)
		synctest.Wait()
		init := decode[protocol.InitializeParams](s.await(t, protocol.MethodInitialize, 2).params)
		if init.ResumeSessionID == nil || *init.ResumeSessionID != "session-1" {
			t.Errorf("resumed %v", init.ResumeSessionID)
		}
		send(proc.print("stdout", "3"), proc.exit(0), proc.end(), otherProc.exit(9), otherProc.end())
		wantOutput(t, p, "123", "")
		wantOutput(t, other, "x", "")
		wantExit(t, other, ExitStatus{Code: 9})
		if n := s.count(protocol.MethodProcessRead); n != 2 {
			t.Errorf("%d reads for 2 processes", n)
		}
		for _, read := range s.called(protocol.MethodProcessRead) {
			if params := decode[protocol.ReadParams](read.params); *params.AfterSeq != 1 || params.MaxBytes != nil || *params.WaitMs != 0 {
				t.Errorf("read %s", read.params)
			}
		}
	})
}

func TestEndedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		proc.denied = true
		send(proc.print("stdout", "1"))
		synctest.Wait()
		// Not sent any more. The exit sits before the last output, where it leaves a hole
		// among the chunks.
		_, _, _, _ = proc.print("stdout", "2"), proc.exit(4), proc.print("stdout", "3"), proc.end()
		s.cut()
		wantExit(t, p, ExitStatus{Code: 4, SandboxDenied: true})
		wantOutput(t, p, "123", "")
		time.Sleep(time.Hour)
		if n := s.count(protocol.MethodProcessRead); n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

func TestWindowExceededWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.window = 2
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		send(proc.print("stdout", "1"))
		synctest.Wait()
		for _, text := range []string{"2", "3", "4"} {
			proc.print("stdout", text) // not sent any more
		}
		s.cut()
		got, err := io.ReadAll(p.Stdout)
		if string(got) != "1" || !errors.Is(err, ErrOutputLost) {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := p.Wait(t.Context()); !errors.Is(err, ErrOutputLost) {
			t.Errorf("wait: %v", err)
		}
		s.await(t, protocol.MethodProcessTerminate, 1)
	})
}

func TestSessionStillAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		release := time.Now().Add(3 * time.Second)
		s.answer = func(_ *fakeConn, req *rpc.Request) bool {
			if req.Method != protocol.MethodInitialize || time.Now().After(release) {
				return false
			}
			req.ReplyInline(nil, protocol.Errorf(protocol.CodeSessionAttached, "still attached"))
			return true
		}
		s.cut()
		send(proc.exit(0))
		_ = proc.end()
		wantExit(t, p, ExitStatus{})
		// Every 100 ms or so, at once at first.
		if n := s.count(protocol.MethodInitialize) - 1; n < 21 || n > 61 {
			t.Errorf("%d attempts in 3 s", n)
		}
	})
}

func TestSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, _ := start(t, s, c)
		s.forgetSessions()
		s.cut()
		if _, err := p.Wait(t.Context()); !errors.Is(err, ErrSessionLost) {
			t.Errorf("wait: %v", err)
		}
		if _, err := p.Stdout.Read(make([]byte, 1)); !errors.Is(err, ErrSessionLost) {
			t.Errorf("read: %v", err)
		}
		if _, err := p.Stdin.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write: %v", err)
		}
		// The client goes on with another session.
		again, proc := start(t, s, c)
		send(proc.exit(0), proc.end())
		wantExit(t, again, ExitStatus{})
		if id := c.SessionID(); id != "session-2" {
			t.Errorf("session %s", id)
		}
	})
}
