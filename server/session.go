package server

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// A Session owns the session-lived services. It is attached to one connection or to
// none; while to none, it waits for somebody to resume it.
type Session struct {
	id       string
	services []rpc.Service
	client   atomic.Pointer[clientInfo] // of the latest connection; set before the services are used
	attached atomic.Pointer[attachment] // nil while detached

	detached *detachment // guarded by sessions.mu; nil while attached
}

// attachment is a session's bond to a connection.
type attachment struct {
	conn *connection
	live chan struct{} // closed once the answer to initialize is queued
}

// detachment is one stay of a session without a connection.
type detachment struct {
	clock *time.Timer
	place *list.Element // in sessions.waiting
}

// clientInfo is who a connection is from.
type clientInfo struct{ name, peer string }

// Client returns the name that the session's client gave itself, cut if it is long, and where
// its latest connection came from.
func (s *Session) Client() (name, peer string) {
	if c := s.client.Load(); c != nil {
		return c.name, c.peer
	}
	return "", ""
}

// A sessionPeer is the notifier of a connection that knows its session.
type sessionPeer struct {
	*rpc.Peer
	*Session
}

// Notify implements rpc.Notifier on the connection.
func (p sessionPeer) Notify(ctx context.Context, method string, params any) error {
	return p.Peer.Notify(ctx, method, params)
}

// ID is the session's id, a UUID of version 4.
func (s *Session) ID() string { return s.id }

// Notify implements rpc.Notifier on whatever connection the session is attached to.
// While there is none it returns an error that is rpc.ErrClosed at once: what it was
// called with is then for the client to ask for. Between a resuming initialize and
// its answer it waits, so that the answer comes first.
func (s *Session) Notify(ctx context.Context, method string, params any) error {
	a := s.attached.Load()
	if a == nil {
		return rpc.ErrClosed
	}
	select {
	case <-a.live:
	default:
		select {
		case <-a.live:
		case <-a.conn.peer.Done():
			return rpc.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return a.conn.peer.Notify(ctx, method, params)
}

// idle reports whether no work is lost when the session ends, as far as its services
// can tell.
func (s *Session) idle() bool {
	for _, service := range s.services {
		if i, ok := service.(interface{ Idle() bool }); !ok || !i.Idle() {
			return false
		}
	}
	return true
}
