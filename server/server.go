package server

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

var (
	// ErrClosed is returned for connections that come during or after Shutdown.
	ErrClosed = errors.New("server closed")
	// ErrTooManyConnections is returned for connections beyond Config.MaxConnections.
	ErrTooManyConnections = errors.New("too many connections")
)

// A Server serves connections.
type Server struct {
	cfg      Config
	methods  map[string]bool // the names in cfg.Table
	sessions *sessions
	budget   *rpc.Budget // cfg.Budget, or one without a bound
	started  time.Time
	draining atomic.Bool
	guests   context.Context // of what Join let in; ended by Shutdown
	dismiss  context.CancelCauseFunc

	mu       sync.Mutex
	conns    map[*connection]struct{}
	reserved int // connections let in, those of conns among them

	running    sync.WaitGroup // reserved connections
	background sync.WaitGroup // probes; begun by connections only
}

// New makes a Server. It panics if Register was not called on the Table.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	names := make(map[string]bool)
	for _, name := range cfg.Table.Names() {
		names[name] = true
	}
	if !names[protocol.MethodInitialize] {
		panic("server: Register was not called on the table")
	}
	s := &Server{cfg: cfg, methods: names, sessions: newSessions(cfg), budget: cfg.Budget, started: time.Now(), conns: make(map[*connection]struct{})}
	if s.budget == nil {
		s.budget = rpc.NewBudget(math.MaxInt64)
	}
	s.guests, s.dismiss = context.WithCancelCause(context.Background())
	return s
}

// ConnectionOptions tell about one connection. The zero value works.
type ConnectionOptions struct {
	// Remote names the other end in logs, such as "127.0.0.1:43324".
	Remote string
	// RequestID is what the client calls the connection, in logs.
	RequestID string
	// ParsePrefix begins the error that answers an unparsable message; see
	// rpc.PeerConfig.
	ParsePrefix string
	// Parent says that the other end is the process that started this one: it may take
	// its time with initialize, and begin with a message of any size.
	Parent bool
	// Final ends the session with the connection: there is no other way back to it.
	Final bool
	// AnswerAll keeps the connection after an orderly end of its input until all that
	// was read is answered, protocol.DrainTimeout at most. It is for connections
	// whose two directions end separately.
	AnswerAll bool
}

// ServeConnection serves conn until it ends, closes it, and returns why it ended:
// nil after an orderly end. When ctx ends so does the connection. The connection's
// requests have returned by then and its services are closed; with Final the
// session's may still be about to close, which Shutdown waits for.
func (s *Server) ServeConnection(ctx context.Context, conn rpc.Connection, opts ConnectionOptions) error {
	if err := s.reserve(); err != nil {
		return errors.Join(err, conn.Close())
	}
	defer s.release()
	return s.serve(ctx, conn, opts)
}

// reserve takes a place for a connection, which release gives back.
func (s *Server) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		return ErrClosed
	case s.reserved >= s.cfg.MaxConnections:
		return ErrTooManyConnections
	}
	s.reserved++
	s.running.Add(1)
	return nil
}

func (s *Server) release() {
	s.mu.Lock()
	s.reserved--
	s.mu.Unlock()
	s.running.Done()
}

// serve is ServeConnection for a connection that has its place.
func (s *Server) serve(ctx context.Context, conn rpc.Connection, opts ConnectionOptions) error {
	c := newConnection(s, conn, opts)
	ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	if !s.add(c) {
		c.peer.CloseFault(rpc.CloseGoingAway, shutdownReason)
		return ErrClosed
	}
	defer s.remove(c)
	return c.serve(ctx)
}

func (s *Server) add(c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

const shutdownReason = "the server is shutting down"

// Shutdown ends all connections, telling them so, and all sessions with what they
// run. It returns once everything has ended, or ctx's error when ctx ends first.
// Connections that come later are refused.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	conns := make([]*connection, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()

	s.dismiss(ErrClosed)
	s.sessions.closeAll()
	var telling sync.WaitGroup
	for _, c := range conns {
		telling.Go(c.shutdown)
	}
	ended := make(chan struct{})
	go func() { // ends when everything has, which is what was asked for
		defer close(ended)
		telling.Wait()
		s.running.Wait()
		s.background.Wait()
		s.sessions.wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close is Shutdown with protocol.ShutdownTimeout.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), protocol.ShutdownTimeout)
	defer cancel()
	return s.Shutdown(ctx)
}

// Draining reports whether Shutdown has begun.
func (s *Server) Draining() bool { return s.draining.Load() }

// Stats is what a Server holds at a moment.
type Stats struct {
	Connections      int
	SessionsAttached int
	SessionsDetached int
	Uptime           time.Duration
	MemoryBudget     int64 // in bytes; see Config.Budget
	MemoryUsed       int64
}

// Stats counts what the server holds.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	stats := Stats{Connections: s.reserved, Uptime: time.Since(s.started)}
	s.mu.Unlock()
	stats.MemoryBudget, stats.MemoryUsed = s.budget.Size(), s.budget.Used()
	stats.SessionsAttached, stats.SessionsDetached = s.sessions.count()
	return stats
}
