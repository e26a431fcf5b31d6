package computer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
	"github.com/wsd-dev/wsd/server"
)

// A session is one WebSocket with a client.
type session struct {
	computer *Computer
	remote   string
	path     string // that was dialled
	began    time.Time
	spoke    atomic.Bool   // the client has sent a message, or is a host that was dialled
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

// admit makes the session of a connection that will be. When there are too many, it takes
// the place of one that has not sent anything for too long, or fails. It has to be served,
// or dropped.
func (c *Computer) admit(remote, path string, dialled bool) (*session, error) {
	s := &session{computer: c, remote: remote, path: path, began: time.Now(), quit: make(chan struct{}), ended: make(chan struct{})}
	s.spoke.Store(dialled)
	c.mu.Lock()
	var mute *session
	if len(c.sessions) >= c.cfg.MaxSessions {
		if mute = c.longestMute(s.began.Add(-protocol.InitializeTimeout)); mute == nil {
			c.mu.Unlock()
			return nil, errFull
		}
		delete(c.sessions, mute)
	}
	c.sessions[s] = struct{}{}
	c.mu.Unlock()
	if mute != nil {
		c.log.Warn("session closed", "conn", mute.remote, "err", errMute)
		go mute.close(rpc.ClosePolicyViolation, errMute.Error()) // ends with the connection, which may linger
	}
	return s, nil
}

// longestMute returns the oldest session that began before then and has sent nothing. It is
// called with the mutex.
func (c *Computer) longestMute(then time.Time) (oldest *session) {
	for s := range c.sessions {
		if !s.spoke.Load() && s.began.Before(then) && (oldest == nil || s.began.Before(oldest.began)) {
			oldest = s
		}
	}
	return oldest
}

var errMute = fmt.Errorf("nothing was sent for more than %s, and another client needs the place", protocol.InitializeTimeout)

// heard is the transport of a session, which notes its first message.
type heard struct {
	wire.Transport
	spoke *atomic.Bool
}

// Read implements capnweb.Transport.
func (h heard) Read(ctx context.Context) ([]byte, error) {
	msg, err := h.Transport.Read(ctx)
	if err == nil {
		h.spoke.Store(true)
	}
	return msg, err
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

// serve serves the session over its connection until one of the ends, or ctx, ends it. What
// it holds is charged to an account of srv.
func (s *session) serve(ctx context.Context, srv *server.Server, conn *wsconn.Conn) {
	c := s.computer
	defer s.drop()
	account := srv.NewAccount(func(reason string) {
		c.log.Warn("session closed", "conn", s.remote, "err", reason)
		s.close(rpc.CloseTryAgainLater, reason)
	})
	defer account.Close()
	conn.Meter(account)
	conn.ReportTo(account)
	c.mu.Lock()
	s.conn = conn
	early := s.closing
	c.mu.Unlock()
	if early != nil {
		_ = conn.CloseFault(early.code, early.reason) // never fails
	}
	c.log.Debug("session opened", "conn", s.remote)
	err := capnweb.Serve(ctx, heard{wire.Transport{Conn: conn}, &s.spoke}, c.config(s, s.path, account))
	c.log.Info("session ended", "conn", s.remote, "dur", time.Since(s.began), "err", err)
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
