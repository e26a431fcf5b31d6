package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/harness"
)

// A Transport reaches one server. It only makes connections; what a Client offers on
// top of them, calls and events and recovery, is the same for every kind.
type Transport interface {
	// Connect makes a new connection. ctx bounds the making only.
	Connect(ctx context.Context) (rpc.Connection, error)
	// Kind is "ws", "unix", "stdio", "relay" or another short name for people.
	Kind() string
	// Resumes says whether a later connection reaches a server that can still have the
	// session of an earlier one.
	Resumes() bool
}

// RefusedError is an HTTP answer that refused the WebSocket.
type RefusedError struct {
	Status int
	// Reason is the beginning of the answer's body, "" when there was none.
	Reason string
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("the server refused the connection: %d %s", e.Status, http.StatusText(e.Status))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// patient is a Transport whose Connect tries again by itself, for as long as that.
type patient interface{ connectTime() time.Duration }

// isPermanent reports whether dialling again is in vain.
func isPermanent(err error) bool {
	if harness.Permanent(err) {
		return true
	}
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden)
}

// errNoRedial is why a connection that was given cannot be made again.
var errNoRedial = errors.New("the connection was given and cannot be made again")

// given is the Transport of New.
type given struct {
	conn   rpc.Connection
	redial func(context.Context) (rpc.Connection, error)
	used   bool
}

func (g *given) Kind() string  { return "given" }
func (g *given) Resumes() bool { return g.redial != nil }

// Connect is called by one goroutine at a time.
func (g *given) Connect(ctx context.Context) (rpc.Connection, error) {
	if !g.used {
		g.used = true
		return g.conn, nil
	}
	if g.redial == nil {
		return nil, errNoRedial
	}
	return g.redial(ctx)
}
