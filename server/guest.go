package server

import (
	"context"
	"net/http"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// Join takes a connection's place for something else that is served beside the
// connections. What it does ends with the context, which Shutdown ends, and then calls
// leave, which Shutdown waits for. The errors are those of ServeConnection.
func (s *Server) Join(ctx context.Context) (joined context.Context, leave func(), err error) {
	if err := s.reserve(); err != nil {
		return nil, nil, err
	}
	joined, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.guests, func() { cancel(context.Cause(s.guests)) })
	return joined, func() {
		stop()
		cancel(nil)
		s.release()
	}, nil
}

// NewAccount makes an account of Config.Budget for what is served in a place of Join.
// revoke is to end that; it is called when it keeps memory that others wait for.
func (s *Server) NewAccount(revoke func(reason string)) *rpc.Account {
	return s.budget.NewAccount(revoke)
}

// ServeWebSocket upgrades a request of a route and has serve serve the connection, in a
// place that Join gives and on a goroutine of its own. The connection is closed when
// serve returns. A request that cannot be upgraded is answered, and false is returned.
func (s *Server) ServeWebSocket(w http.ResponseWriter, r *http.Request, cfg wsconn.Config, serve func(ctx context.Context, conn *wsconn.Conn)) bool {
	if status, why := refuseUpgrade(r); status != 0 {
		text(w, status, why)
		return false
	}
	ctx, leave, err := s.Join(context.Background())
	if err != nil {
		s.noRoom(w, r, err)
		return false
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		leave()
		return false // answered by Upgrade
	}
	cfg.Unmasked = true
	go func() { // Shutdown ends it and waits, by way of Join
		defer leave()
		conn := wsconn.New(ws, cfg)
		defer conn.Close()
		serve(ctx, conn)
	}()
	return true
}
