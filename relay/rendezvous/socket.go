package rendezvous

import (
	"context"
	"errors"
	"sync"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// A socket is what executors' and harnesses' have in common. It may be shut before there
// is a connection.
type socket struct {
	mu     sync.Mutex
	conn   *wsconn.Conn
	closed bool
	code   int
	reason string
}

// attach gives the socket its connection.
func (s *socket) attach(conn *wsconn.Conn) {
	s.mu.Lock()
	s.conn = conn
	closed := s.closed
	s.mu.Unlock()
	if closed {
		_ = conn.CloseFault(s.code, s.reason)
	}
}

// shut closes the socket, saying why. The first one to do so counts.
func (s *socket) shut(code int, reason string) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed, s.code, s.reason = true, code, reason
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		_ = conn.CloseFault(code, reason)
	}
}

// why is the reason that the socket was shut for, or else err's.
func (s *socket) why(err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return s.reason
	case err == nil:
		return "closed"
	}
	return err.Error()
}

// closeCode is the code to close with after reading has ended with err.
func closeCode(err error) int {
	if errors.Is(err, rpc.ErrTooLarge) {
		return rpc.CloseTooLarge
	}
	return closeGoingAway
}

// receive calls f with each message, until the socket ends. Text messages are dropped.
func (s *socket) receive(f func(message []byte) error) error {
	for {
		message, err := s.conn.Read(context.Background()) // shut ends it
		if errors.Is(err, wsconn.ErrText) {
			continue
		}
		if err != nil {
			return err
		}
		if err := f(message); err != nil {
			return err
		}
	}
}
