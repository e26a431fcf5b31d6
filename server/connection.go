package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// connection leads one rpc.Connection through its life: the ConnectionProcessor.
type connection struct {
	server *Server
	conn   rpc.Connection
	opts   ConnectionOptions
	log    *slog.Logger
	peer   *rpc.Peer
	scope  *rpc.Scope
	*rpc.Dispatcher

	// Owned by the reading goroutine.
	stage    stage
	session  *Session
	services []rpc.Service // connection-lived

	account *rpc.Account            // nil without a Config.Budget
	late    *time.Timer             // closes the connection if the handshake takes too long
	cancel  context.CancelCauseFunc // of the context that serve runs with
	probing atomic.Bool
}

func newConnection(s *Server, conn rpc.Connection, opts ConnectionOptions) *connection {
	c := &connection{server: s, conn: conn, opts: opts, log: s.cfg.Logger, scope: s.cfg.Table.NewScope()}
	c.scope.Bind(c)
	c.Dispatcher = rpc.NewDispatcher(c.scope, rpc.DispatcherConfig{
		Concurrency: s.cfg.Concurrency, Gate: c.gate, Observe: c.observe(), Logger: s.cfg.Logger,
	})
	c.account = s.budget.NewAccount(c.revoke)
	if !opts.Parent {
		c.account.SetMaxMessage(protocol.MaxFirstMessageBytes)
	}
	c.peer = rpc.NewPeer(conn, rpc.PeerConfig{
		Handler: c, Unreadable: c.HandleUnreadable, Logger: s.cfg.Logger, ParsePrefix: opts.ParsePrefix, Account: c.account,
		Received: s.cfg.Observer.Received, Sent: s.cfg.Observer.Sent,
	})
	return c
}

// revoke ends a connection that keeps memory which others wait for.
func (c *connection) revoke(reason string) {
	c.log.Warn("connection closed", "conn", c.opts.Remote, "err", reason)
	c.peer.CloseFault(rpc.CloseTryAgainLater, reason)
	c.cancel(errors.New(reason))
}

// tooLate ends a connection whose handshake has not ended in time.
func (c *connection) tooLate() {
	reason := fmt.Sprintf("initialize and initialized did not arrive within %s", protocol.InitializeTimeout)
	c.log.Warn("connection closed", "conn", c.opts.Remote, "err", reason)
	c.peer.CloseFault(rpc.ClosePolicyViolation, reason)
}

// serve runs the connection to its end.
func (c *connection) serve(ctx context.Context) error {
	began := time.Now()
	c.log.Debug("connection opened", "conn", c.opts.Remote, "request", c.opts.RequestID)
	if !c.opts.Parent {
		c.late = time.AfterFunc(protocol.InitializeTimeout, c.tooLate)
		defer c.late.Stop()
	}
	defer c.account.Close()
	err := c.peer.Serve(ctx)
	if err == nil && c.opts.AnswerAll {
		err = c.answerAll()
	}
	c.end(ctx)
	c.log.Info("connection ended", "conn", c.opts.Remote, "session", c.sessionID(), "dur", time.Since(began), "err", err)
	return err
}

// end takes the connection down. The session is let go first, because its client may
// be waiting to resume it; a session that ends here, though, must see no request after
// its end.
func (c *connection) end(ctx context.Context) {
	resumable := !c.opts.Final && c.server.cfg.SessionGrace >= 0
	if resumable {
		c.detach()
	}
	if ctx.Err() != nil {
		c.peer.CloseFault(rpc.CloseGoingAway, shutdownReason)
	} else {
		_ = c.peer.Close() // never fails
	}
	c.cancel(rpc.ErrClosed)
	c.Wait()
	if err := closeServices(c.services); err != nil {
		c.log.Error("connection did not end cleanly", "conn", c.opts.Remote, "err", err)
	}
	if !resumable {
		c.detach()
	}
}

func (c *connection) detach() {
	if c.session != nil {
		c.server.sessions.detach(c.session, c)
	}
}

// answerAll waits until what was read is answered and written. When that takes too
// long the requests are cancelled, which has most answer with what they have.
func (c *connection) answerAll() error {
	answered := make(chan struct{})
	go func() { // ends with the requests, which end's Wait waits for too
		c.Wait()
		close(answered)
	}()
	timeout := time.NewTimer(protocol.DrainTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-answered:
			ctx, stop := context.WithTimeout(context.Background(), protocol.ShutdownTimeout)
			defer stop()
			return c.peer.Flush(ctx)
		case <-c.peer.Done():
			return c.peer.Err()
		case <-timeout.C:
			c.cancel(errors.New("the input has ended"))
		}
	}
}

// shutdown ends the connection from another goroutine, without waiting for it.
func (c *connection) shutdown() {
	c.peer.CloseFault(rpc.CloseGoingAway, shutdownReason)
	c.cancel(ErrClosed) // a WebSocket may linger after a fault, to have its reason read
}

// observe is what the dispatcher tells of requests, nil when nobody listens.
func (c *connection) observe() func(context.Context, string, wire.TraceContext) (context.Context, func(error)) {
	next := c.server.cfg.Observer.Request
	if !c.log.Enabled(context.Background(), slog.LevelDebug) {
		return next
	}
	return func(ctx context.Context, method string, trace wire.TraceContext) (context.Context, func(error)) {
		done := func(error) {}
		if next != nil {
			ctx, done = next(ctx, method, trace)
		}
		began := time.Now()
		return ctx, func(err error) {
			done(err)
			var code protocol.Code
			if failure := rpc.WireError(err); failure != nil {
				code = failure.Code
			}
			c.log.Debug("request", "conn", c.opts.Remote, "method", method, "dur", time.Since(began), "code", int64(code))
		}
	}
}

func (c *connection) sessionID() string {
	if c.session == nil {
		return ""
	}
	return c.session.id
}
