package server

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// probe finds out in the background whether the other end of c still lives, because
// another connection asks for session, and frees the session if nothing is heard for
// protocol.ProbeTimeout. A peer that vanished without closing its TCP would otherwise
// hold its session for many minutes; the client, which tries again every 100 ms, gets
// it after seconds instead.
func (c *connection) probe(session *Session) {
	prober, ok := c.conn.(Prober)
	if !ok || !c.probing.CompareAndSwap(false, true) {
		return
	}
	c.server.background.Go(func() { // ends within ProbeTimeout; Shutdown waits
		ctx, cancel := context.WithTimeout(context.Background(), protocol.ProbeTimeout)
		defer cancel()
		if err := prober.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
			c.probing.Store(false)
			return // it lives, or has ended, or there is no telling
		}
		c.log.Info("connection dropped: no sign of life while another asks for its session", "conn", c.opts.Remote, "session", session.id)
		c.server.sessions.detach(session, c)
		c.peer.CloseFault(rpc.ClosePolicyViolation, "no answer to a ping while another connection asked for the session")
	})
}
