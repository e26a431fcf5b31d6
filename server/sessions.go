package server

import (
	"container/list"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// sessions are the sessions of a server, attached and detached.
type sessions struct {
	grace  time.Duration
	log    *slog.Logger
	create func(*Session) []rpc.Service

	mu      sync.Mutex
	byID    map[string]*Session
	waiting list.List // detached *Session, the one detached longest in front
	closed  bool
	ending  sync.WaitGroup // services being closed
}

var errShuttingDown = protocol.Errorf(protocol.CodeInvalidRequest, "the server is shutting down")

func newSessions(cfg Config) *sessions {
	return &sessions{grace: cfg.SessionGrace, log: cfg.Logger, create: cfg.NewSession, byID: make(map[string]*Session)}
}

// open makes a new session, attached to conn.
func (r *sessions) open(conn *connection) (*Session, *attachment, error) {
	s := &Session{id: newUUID()}
	s.services = r.create(s)
	a := &attachment{conn: conn, live: make(chan struct{})}
	r.mu.Lock()
	if r.closed {
		r.ending.Add(1)
		r.mu.Unlock()
		r.finish(s)
		return nil, nil, errShuttingDown
	}
	s.attached.Store(a)
	r.byID[s.id] = s
	r.mu.Unlock()
	r.log.Info("session opened", "session", s.id, "conn", conn.opts.Remote)
	return s, a, nil
}

// resume attaches the session id to conn. If it has a connection already, that is
// returned with the session and the error.
func (r *sessions) resume(id string, conn *connection) (*Session, *attachment, *connection, error) {
	r.mu.Lock()
	s := r.byID[id]
	if s == nil {
		r.mu.Unlock()
		return nil, nil, nil, protocol.Errorf(protocol.CodeInvalidRequest, "unknown session id %s", id)
	}
	if holder := s.attached.Load(); holder != nil {
		r.mu.Unlock()
		return s, nil, holder.conn, protocol.Errorf(protocol.CodeSessionAttached, "session %s is already attached to another connection", id)
	}
	s.detached.clock.Stop()
	r.waiting.Remove(s.detached.place)
	s.detached = nil
	a := &attachment{conn: conn, live: make(chan struct{})}
	s.attached.Store(a)
	r.mu.Unlock()
	r.log.Info("session resumed", "session", id, "conn", conn.opts.Remote)
	return s, a, nil, nil
}

// detach ends the bond of s to conn, if there is one, and starts its clock.
func (r *sessions) detach(s *Session, conn *connection) {
	r.mu.Lock()
	if a := s.attached.Load(); a == nil || a.conn != conn {
		r.mu.Unlock()
		return
	}
	s.attached.Store(nil)
	if r.grace < 0 || r.closed || conn.opts.Final {
		r.remove(s)
		r.mu.Unlock()
		r.end(s, "its connection ended")
		return
	}
	d := &detachment{place: r.waiting.PushBack(s)}
	d.clock = time.AfterFunc(r.grace, func() { r.expire(s, d) })
	s.detached = d
	evicted := r.overflow()
	r.mu.Unlock()
	r.log.Info("session detached", "session", s.id, "grace", r.grace)
	if evicted != nil {
		r.end(evicted, "too many detached sessions")
	}
}

// overflow takes out one detached session if there are too many: the one detached
// longest of those that have nothing to lose, else of all.
func (r *sessions) overflow() *Session {
	if r.waiting.Len() <= protocol.MaxDetachedSessions {
		return nil
	}
	victim := r.waiting.Front().Value.(*Session)
	for e := r.waiting.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*Session); s.idle() {
			victim = s
			break
		}
	}
	r.remove(victim)
	return victim
}

// expire ends s if it has been detached ever since d.
func (r *sessions) expire(s *Session, d *detachment) {
	r.mu.Lock()
	if s.detached != d {
		r.mu.Unlock()
		return
	}
	r.remove(s)
	r.mu.Unlock()
	r.end(s, "nobody resumed it")
}

// remove makes s unknown. The caller holds mu, and calls end after.
func (r *sessions) remove(s *Session) {
	delete(r.byID, s.id)
	if s.detached != nil {
		s.detached.clock.Stop()
		r.waiting.Remove(s.detached.place)
		s.detached = nil
	}
	r.ending.Add(1)
}

// end closes the services of a removed session without waiting for them.
func (r *sessions) end(s *Session, why string) {
	r.log.Info("session ended", "session", s.id, "why", why)
	go r.finish(s) // waited for by wait
}

func (r *sessions) finish(s *Session) {
	defer r.ending.Done()
	if err := closeServices(s.services); err != nil {
		r.log.Error("session did not end cleanly", "session", s.id, "err", err)
	}
}

// closeAll ends every session, attached ones too, and refuses new ones.
func (r *sessions) closeAll() {
	r.mu.Lock()
	r.closed = true
	var all []*Session
	for _, s := range r.byID {
		all = append(all, s)
		r.remove(s)
		s.attached.Store(nil)
	}
	r.mu.Unlock()
	for _, s := range all {
		r.end(s, "the server is shutting down")
	}
}

// wait returns when the services of every ended session are closed.
func (r *sessions) wait() { r.ending.Wait() }

// count returns how many sessions are attached and detached.
func (r *sessions) count() (attached, detached int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID) - r.waiting.Len(), r.waiting.Len()
}

// closeServices closes services in the reverse of the order they were made in.
func closeServices(services []rpc.Service) error {
	var errs []error
	for i := len(services) - 1; i >= 0; i-- {
		errs = append(errs, services[i].Close())
	}
	return errors.Join(errs...)
}

// newUUID returns a random UUID: version 4 of RFC 9562.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
