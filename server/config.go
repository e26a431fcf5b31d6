package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// Config is what a Server is made of. Table is required.
type Config struct {
	// Table lists the methods. Register must have been called on it.
	Table *rpc.Table
	// NewSession makes the services of a new session. They may notify through s,
	// which nobody is attached to before NewSession returns, and are closed when the
	// session ends. nil means none.
	NewSession func(s *Session) []rpc.Service
	// NewConnection makes the services of a connection, as it is initialized. They
	// are closed when it has ended and every request of it has returned. nil means
	// none.
	NewConnection func(n rpc.Notifier) []rpc.Service
	// Info describes the machine in the answer to initialize. nil means nothing known.
	Info func() protocol.EnvironmentInfo

	// SessionGrace is how long a session waits to be resumed. 0 means
	// protocol.SessionGrace; below 0 a session ends with its connection.
	SessionGrace time.Duration
	// MaxConnections bounds the connections; 0 means protocol.MaxConnections.
	MaxConnections int
	// Concurrency is how many requests of a connection run at a time; see
	// rpc.DispatcherConfig.
	Concurrency int

	// Budget bounds the memory that all connections hold together for messages, answers
	// and bodies. nil means no bound over connections.
	Budget *rpc.Budget

	// Observer watches; the zero value does not.
	Observer Observer
	// Logger is told of the life of the server (Info) and of its requests (Debug),
	// never of what they carry. nil discards.
	Logger *slog.Logger
}

// Observer is how metrics and traces see a server. Each field may be nil.
type Observer struct {
	// Request is called when a request begins to run; what it returns is called with
	// the request's outcome. The context is the request's from then on.
	Request func(ctx context.Context, method string, trace wire.TraceContext) (context.Context, func(error))
	// Received and Sent are called with the size of each message in bytes, once it has
	// been read or written.
	Received, Sent func(bytes int)
}

// A Prober is a Connection that can find out whether its other end still lives.
type Prober interface {
	// Probe returns nil at the next sign of life, an error that is
	// errors.ErrUnsupported if there is no telling, and the context's error when ctx
	// ends first.
	Probe(ctx context.Context) error
}

func (cfg Config) withDefaults() Config {
	if cfg.NewSession == nil {
		cfg.NewSession = func(*Session) []rpc.Service { return nil }
	}
	if cfg.NewConnection == nil {
		cfg.NewConnection = func(rpc.Notifier) []rpc.Service { return nil }
	}
	if cfg.Info == nil {
		cfg.Info = func() protocol.EnvironmentInfo { return protocol.EnvironmentInfo{} }
	}
	if cfg.SessionGrace == 0 {
		cfg.SessionGrace = protocol.SessionGrace
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = protocol.MaxConnections
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}
