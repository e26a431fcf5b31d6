package server

import (
	"context"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// stage is how far a connection has come.
type stage int

const (
	stageFresh    stage = iota // no session yet
	stageAnswered              // initialize succeeded
	stageReady                 // initialized arrived
)

// Register adds initialize to t. Every table of a Server needs it.
func Register(t *rpc.Table) {
	rpc.Handle(t, rpc.Spec[protocol.InitializeParams]{
		Name:   protocol.MethodInitialize,
		Family: "session",
		Order:  rpc.Always[protocol.InitializeParams](rpc.Inline), // what comes after it depends on it
		ParamsError: func(err error) error { // as the original words it
			return protocol.InvalidParams("%v", err)
		},
	}, (*connection).initialize)
}

// gate refuses what the handshake does not allow yet. Unknown methods and bad
// parameters have been answered before.
func (c *connection) gate(m *rpc.Method) error {
	switch {
	case m.Name == protocol.MethodInitialize:
		if c.stage != stageFresh {
			return protocol.Errorf(protocol.CodeInvalidRequest, "initialize may only be sent once per connection")
		}
	case c.stage == stageFresh:
		return protocol.Errorf(protocol.CodeInvalidRequest, "client must call initialize before using %s methods", m.Family)
	case c.stage == stageAnswered:
		return protocol.Errorf(protocol.CodeInvalidRequest, "client must send initialized before using %s methods", m.Family)
	}
	return nil
}

// initialize attaches a new session or, with an id, an existing one. After a failure
// the client may try again on the same connection.
func (c *connection) initialize(ctx context.Context, p *protocol.InitializeParams) (*protocol.InitializeResult, error) {
	session, bond, err := c.attach(p.ResumeSessionID)
	if err != nil {
		return nil, err
	}
	c.session = session
	session.client.Store(&clientInfo{shorten(p.ClientName), c.opts.Remote})
	c.services = c.server.cfg.NewConnection(sessionPeer{c.peer, session})
	for _, service := range session.services {
		c.scope.Bind(service)
	}
	for _, service := range c.services {
		c.scope.Bind(service)
	}
	c.stage = stageAnswered
	c.account.SetMaxMessage(0)
	rpc.AfterReply(ctx, func() { close(bond.live) })
	c.log.Info("connection initialized", "conn", c.opts.Remote, "request", c.opts.RequestID,
		"session", session.id, "resumed", p.ResumeSessionID != nil, "client", shorten(p.ClientName))
	return &protocol.InitializeResult{SessionID: session.id, EnvironmentInfo: c.server.cfg.Info()}, nil
}

func (c *connection) attach(resume *string) (*Session, *attachment, error) {
	if resume == nil {
		return c.server.sessions.open(c)
	}
	session, bond, holder, err := c.server.sessions.resume(*resume, c)
	if holder != nil {
		holder.probe(session)
		if c.late != nil {
			c.late.Reset(protocol.InitializeTimeout) // the client knows a session, and may wait for it
		}
	}
	return session, bond, err
}

// HandleNotification implements rpc.Handler. The original closes the connection for
// everything but initialized in its place; here the client is told, and goes on.
func (c *connection) HandleNotification(_ context.Context, method string, params []byte) error {
	taken := method != protocol.NotifyInitialized && c.Takes(method)
	switch {
	case taken && c.stage == stageReady:
		return c.Dispatcher.HandleNotification(method, params)
	case taken && c.stage == stageAnswered:
		return protocol.Errorf(protocol.CodeInvalidRequest, "client must send initialized before sending the notification `%s`", method)
	case !taken && method != protocol.NotifyInitialized:
		if c.server.methods[method] {
			return protocol.Errorf(protocol.CodeInvalidRequest, "`%s` is a request and needs an id", method)
		}
		return protocol.Errorf(protocol.CodeInvalidRequest, "unexpected notification `%s`", shorten(method))
	case c.stage == stageFresh:
		return protocol.Errorf(protocol.CodeInvalidRequest, "client must call initialize before sending the notification `%s`", method)
	}
	c.stage = stageReady
	if c.late != nil {
		c.late.Stop()
	}
	return nil
}

// shorten keeps a client's own words short in logs and errors.
func shorten(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
