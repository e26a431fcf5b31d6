package capnweb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A scripted transport gives messages and errors, and takes or blocks what is written.
type scripted struct {
	in     chan any // []byte or error
	out    chan string
	closed chan struct{}
	once   sync.Once
	code   int
	reason string
	broken error // of every write
}

func newScripted(room int) *scripted {
	return &scripted{in: make(chan any, 10), out: make(chan string, room), closed: make(chan struct{})}
}

func (s *scripted) Read(context.Context) ([]byte, error) {
	select {
	case v := <-s.in:
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v.([]byte), nil
	case <-s.closed:
		return nil, io.ErrClosedPipe
	}
}

func (s *scripted) Write(_ context.Context, msg []byte) error {
	if s.broken != nil {
		return s.broken
	}
	select {
	case s.out <- string(msg):
		return nil
	case <-s.closed:
		return io.ErrClosedPipe
	}
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *scripted) CloseFault(code int, reason string) error {
	s.code, s.reason = code, reason
	return s.Close()
}

// A message that is no text aborts the session.
func TestBadMessage(t *testing.T) {
	conn := newScripted(10)
	s := New(conn, Config{})
	conn.in <- fmt.Errorf("read: %w", ErrBadMessage)
	if _, ok := errors.AsType[*ProtocolError](s.Wait()); !ok {
		t.Error(s.Err())
	}
	if got := <-conn.out; got != `["abort",["error","SyntaxError","a message is not text"]]` {
		t.Error(got)
	}
	if conn.code != CloseCode || conn.reason != "a message is not text" {
		t.Errorf("%d %q", conn.code, conn.reason)
	}
}

func TestConnectionLost(t *testing.T) {
	conn := newScripted(10)
	s := New(conn, Config{})
	call := make(chan error)
	go func() { call <- s.Main().Call(t.Context(), nil, "x") }()
	<-conn.out
	conn.in <- errors.New("no route")
	if err := <-call; err == nil || err.Error() != "capnweb: connection lost: no route" {
		t.Error(err)
	}
	if err := s.Wait(); err == nil || errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// What the peer says as it ends a session is heard although a write fails first.
func TestLastWords(t *testing.T) {
	broken := errors.New("broken pipe")
	for name, tt := range map[string]struct {
		said any
		want string
		took time.Duration
	}{
		"abort":   {[]byte(`["abort",["error","Error","going down"]]`), "capnweb: aborted by the peer: going down", 0},
		"end":     {io.EOF, "capnweb: session closed by the peer", 0},
		"failure": {errors.New("closed"), "capnweb: connection lost: broken pipe", 0},
		"nothing": {nil, "capnweb: connection lost: broken pipe", lastWordsTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := newScripted(10)
				conn.broken = broken
				s := New(conn, Config{})
				start := time.Now()
				s.Main().Start(t.Context(), "x")
				synctest.Wait()
				if tt.said != nil {
					conn.in <- tt.said
				}
				if err := s.Wait(); err == nil || err.Error() != tt.want {
					t.Error(err)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A peer that does not read does not keep a session from ending, with a close reason that
// fits a close frame.
func TestEndWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newScripted(0)
		s := New(conn, Config{})
		s.Main().Start(t.Context(), "x")
		start := time.Now()
		s.Abort(&Error{Message: strings.Repeat("é", 100)})
		s.Wait()
		if took := time.Since(start); took != FlushTimeout {
			t.Errorf("it took %v", took)
		}
		if conn.code != CloseCode || conn.reason != strings.Repeat("é", 61) {
			t.Errorf("%d %q", conn.code, conn.reason)
		}
	})
}

// Nobody reads: three chunks fill the first window, and then nothing comes.
func TestFirstWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newScripted(100)
		s := New(conn, Config{Main: newService().main})
		conn.in <- []byte(`["push",["pipeline",0,["count"],[100,65536]]]`)
		conn.in <- []byte(`["pull",1]`)
		time.Sleep(time.Hour)
		if got := len(conn.out); got != 2+3 { // pipe, resolve, writes
			t.Errorf("%d frames", got)
		}
		s.Close()
	})
}

// A window that is set stays as it is.
func TestWithWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := NewTarget()
		api.Handle("tight", Func0(func(context.Context) (Stream[int], error) { return StreamOf(1, 2, 3).WithWindow(1), nil }))
		conn := newScripted(100)
		s := New(conn, Config{Main: api})
		conn.in <- []byte(`["push",["pipeline",0,["tight"],[]]]`)
		conn.in <- []byte(`["pull",1]`)
		time.Sleep(time.Hour)
		if got := len(conn.out); got != 2+1 {
			t.Errorf("%d frames", got)
		}
		conn.in <- []byte(`["resolve",2,["undefined"]]`)
		time.Sleep(time.Hour)
		if got := len(conn.out); got != 2+2 {
			t.Errorf("%d frames", got)
		}
		s.Close()
	})
}

func TestNewBytesStream(t *testing.T) {
	_, c := connected(t)
	ctx := aMinute(t)
	pr, pw := io.Pipe()
	go func() {
		_, _ = pw.Write([]byte(strings.Repeat("x", 200_000)))
		pw.Close()
	}()
	var back Stream[[]byte]
	if err := c.Main().Call(ctx, &back, "echo", NewBytesStream(pr)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(NewReader(ctx, back))
	if err != nil || len(text) != 200_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}

	pr, pw = io.Pipe()
	if err := c.Main().Call(ctx, nil, "ignore", NewBytesStream(pr)); err != nil {
		t.Fatal(err)
	}
	if _, err := pw.Write([]byte("x")); err == nil { // taken before it was cancelled
		_, err = pw.Write([]byte("x"))
		for err == nil {
			_, err = pw.Write([]byte("x"))
		}
	}
}
