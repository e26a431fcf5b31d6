package client

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"
)

// Options are what a Client may be told; nil and the zero value work.
type Options struct {
	// ClientName is what the server logs; default "wsd-client".
	ClientName string
	// BearerToken is sent as "Authorization: Bearer" when dialling a WebSocket.
	// Outside of TLS it is sent to loopback addresses and Unix sockets only.
	BearerToken string
	// RequestID is sent as "x-request-id" when dialling a WebSocket.
	RequestID string
	// TLSConfig is used for wss, and for the registry of a relay.
	TLSConfig *tls.Config
	// Relay is for relay URLs.
	Relay RelayOptions
	// ConnectTimeout bounds one attempt to connect and initialize; default 10 s. Over a
	// relay the default is for initializing alone, as finding the executor may take
	// longer (see package harness).
	ConnectTimeout time.Duration
	// CallTimeout bounds each typed call but those that stream; 0 means no bound but
	// the context's.
	CallTimeout time.Duration
	// Reconnect says what happens when the connection is lost.
	Reconnect Reconnect
	// OutputBuffer is how many bytes of one process wait for its readers before the
	// connection is held up; default 4 MiB.
	OutputBuffer int
	// StallTimeout is how long a full OutputBuffer may hold up the connection before
	// the process's output is left at the server (see the package's comment); default
	// 10 s. Negative means for ever: no output is ever lost to a slow reader then.
	StallTimeout time.Duration
	// OnState, if set, is told of each change of the connection, one at a time. It
	// must not block, nor call the Client.
	OnState func(StateChange)
	// Logger is used for what no caller can be told; nil discards.
	Logger *slog.Logger
}

// Reconnect is a policy of dialling again. The zero value dials again where the
// transport can: at once, then with delays that double.
type Reconnect struct {
	// Disabled ends the Client with its first connection.
	Disabled bool
	// MinDelay and MaxDelay bound the delay after a failed attempt; defaults 100 ms
	// and 5 s. Each is varied by up to half.
	MinDelay, MaxDelay time.Duration
	// GiveUpAfter ends the Client when it has been without a connection for so long;
	// default is the session's grace at the server, after which its processes are
	// gone, or 80 s when the server does not tell.
	GiveUpAfter time.Duration
}

// State is the state of a Client's connection.
type State int

const (
	// StateConnecting: there is no connection, one is being made.
	StateConnecting State = iota
	// StateConnected: calls go through.
	StateConnected
	// StateClosed: there will be no other connection.
	StateClosed
)

func (s State) String() string {
	switch s {
	case StateConnecting:
		return "connecting"
	case StateConnected:
		return "connected"
	case StateClosed:
		return "closed"
	}
	return "unknown"
}

// StateChange tells of a step of connecting.
type StateChange struct {
	State State
	// Attempt counts the attempts since the connection was lost, from 1; 0 when
	// State is not StateConnecting.
	Attempt int
	// Resumed is true when StateConnected has the session of before.
	Resumed bool
	// Err is what the attempt before failed with, or what ended the connection; nil
	// at first and after Close.
	Err error
}

const (
	defaultConnectTimeout = 10 * time.Second
	defaultOutputBuffer   = 4 << 20
	defaultStallTimeout   = 10 * time.Second
	defaultMinDelay       = 100 * time.Millisecond
	defaultMaxDelay       = 5 * time.Second
)

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.ClientName = cmp.Or(out.ClientName, "wsd-client")
	out.ConnectTimeout = cmp.Or(out.ConnectTimeout, defaultConnectTimeout)
	out.OutputBuffer = cmp.Or(out.OutputBuffer, defaultOutputBuffer)
	out.StallTimeout = cmp.Or(out.StallTimeout, defaultStallTimeout)
	out.Reconnect.MinDelay = cmp.Or(out.Reconnect.MinDelay, defaultMinDelay)
	out.Reconnect.MaxDelay = max(cmp.Or(out.Reconnect.MaxDelay, defaultMaxDelay), out.Reconnect.MinDelay)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// LogValue keeps the token out of logs.
func (o Options) LogValue() slog.Value {
	return slog.GroupValue(slog.String("clientName", o.ClientName), slog.Bool("bearerToken", o.BearerToken != ""))
}
