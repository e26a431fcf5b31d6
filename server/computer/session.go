package computer

import (
	"context"
	"errors"
	"time"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// A session is one WebSocket with a client.
type session struct {
	computer *Computer
	remote   string
	conn     *wsconn.Conn  // once it is served; under the lock of computer
	closing  *closing      // why it is to end; likewise
	quit     chan struct{} // closed when it is to end
	ended    chan struct{} // closed when nothing of it is left
}

// closing is what the peer is told with the end of its WebSocket.
type closing struct {
	code   int
	reason string
}

var errFull = errors.New("too many sessions")

// admit makes the session of a connection that will be, unless there are too many. It
// has to be served, or dropped.
func (c *Computer) admit(remote string) (*session, error) {
	s := &session{computer: c, remote: remote, quit: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) >= c.cfg.MaxSessions {
		return nil, errFull
	}
	c.sessions[s] = struct{}{}
	return s, nil
}

// drop takes the session out.
func (s *session) drop() {
	c := s.computer
	c.mu.Lock()
	delete(c.sessions, s)
	if c.upstream == s {
		c.upstream = nil
	}
	c.mu.Unlock()
	close(s.ended)
}

// serve serves the session over its connection until one of the ends, or ctx, ends it.
func (s *session) serve(ctx context.Context, conn *wsconn.Conn) {
	c := s.computer
	defer s.drop()
	c.mu.Lock()
	s.conn = conn
	early := s.closing
	c.mu.Unlock()
	if early != nil {
		_ = conn.CloseFault(early.code, early.reason) // never fails
	}
	began := time.Now()
	c.log.Debug("session opened", "conn", s.remote)
	err := capnweb.Serve(ctx, wire.Transport{Conn: conn}, c.config(s))
	c.log.Info("session ended", "conn", s.remote, "dur", time.Since(began), "err", err)
}

// close ends the session, also one that is not served yet, with a code of WebSockets.
func (s *session) close(code int, reason string) {
	c := s.computer
	c.mu.Lock()
	conn, again := s.conn, s.closing != nil
	if !again {
		s.closing = &closing{code, reason}
		close(s.quit)
	}
	c.mu.Unlock()
	if conn != nil && !again {
		_ = conn.CloseFault(code, reason) // never fails
	}
}
