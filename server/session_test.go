package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Between a resuming initialize and its answer a notification waits: for the answer,
// for the end of its context, or for that of the connection.
func TestNotifyWaitsForTheAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(a *attachment, cancel context.CancelCauseFunc)
		want error
	}{
		"answered":          {func(a *attachment, _ context.CancelCauseFunc) { close(a.live) }, nil},
		"given up":          {func(_ *attachment, cancel context.CancelCauseFunc) { cancel(errGivenUp) }, errGivenUp},
		"connection closed": {func(a *attachment, _ context.CancelCauseFunc) { a.conn.peer.Close() }, rpc.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := rpc.Pair()
				defer far.Close()
				conn := &connection{peer: rpc.NewPeer(near, rpc.PeerConfig{})}
				defer conn.peer.Close()
				a := &attachment{conn: conn, live: make(chan struct{})}
				s := &Session{id: "s"}
				s.attached.Store(a)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				done := make(chan error, 1)
				go func() { done <- s.Notify(ctx, "x", 1) }()
				advance(time.Hour)
				select {
				case err := <-done:
					t.Fatalf("did not wait: %v", err)
				default:
				}
				tc.end(a, cancel)
				if err := <-done; !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
			})
		})
	}
}

var errGivenUp = errors.New("given up")

// A connection that initializes while the server shuts down gets no session.
func TestNoSessionDuringShutdown(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{})
		w.sessions.closeAll()
		c.send(initializeRequest(""))
		c.want(`{"error":{"code":-32600,"message":"the server is shutting down"},"id":"init"}`)
		synctest.Wait()
		if !w.process(0).isClosed() {
			t.Error("services were made and not closed")
		}
	})
}

// brokenService does not end cleanly.
type brokenService struct{ closed *[]string }

func (b brokenService) Close() error {
	*b.closed = append(*b.closed, "broken")
	return errors.New("no clean end")
}

type goodService struct{ closed *[]string }

func (g goodService) Close() error {
	*g.closed = append(*g.closed, "good")
	return nil
}

// Services are closed in reverse order, all of them, and what goes wrong is logged.
func TestSessionThatDoesNotEndCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var closed []string
		r := newSessions(Config{
			Logger:       slog.New(slog.NewTextHandler(&log, nil)),
			SessionGrace: time.Second,
			NewSession: func(s *Session) []rpc.Service {
				if s.ID() == "" {
					t.Error("no id yet")
				}
				return []rpc.Service{goodService{&closed}, brokenService{&closed}}
			},
		})
		conn := new(connection)
		s, _, err := r.open(conn)
		if err != nil {
			t.Fatal(err)
		}
		r.detach(s, new(connection)) // not its connection: nothing happens
		advance(time.Minute)
		if attached, _ := r.count(); attached != 1 {
			t.Fatal("another connection detached the session")
		}
		r.detach(s, conn)
		advance(time.Minute)
		r.wait()
		if got := strings.Join(closed, " "); got != "broken good" {
			t.Errorf("closed: %s", got)
		}
		if !strings.Contains(log.String(), "no clean end") {
			t.Errorf("not logged:\n%s", log.String())
		}
	})
}

func TestNewWantsRegister(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a table without initialize was accepted")
		}
	}()
	New(Config{Table: rpc.NewTable()})
}

// A server without services still leads connections through the handshake.
func TestBareServer(t *testing.T) {
	table := rpc.NewTable()
	Register(table)
	s := New(Config{Table: table})
	near, far := rpc.Pair()
	c := &client{t: t, conn: far, done: make(chan error, 1)}
	go func() { c.done <- s.ServeConnection(context.Background(), near, ConnectionOptions{}) }()
	c.open("")
	c.send(`{"id":1,"method":"x"}`)
	c.wantError("1", -32601)
	far.Close()
	if err := c.outcome(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
