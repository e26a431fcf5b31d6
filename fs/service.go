package fs

import (
	"context"
	"log/slog"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Sandboxer decides where requests with a sandbox run.
type Sandboxer interface {
	// Direct reports whether what s allows is no less than the server itself may do.
	Direct(s *protocol.Sandbox) (bool, error)
	// Open opens a regular file for reading in this process where a helper for s would
	// open the same one; not ok leaves it to a helper.
	Open(s *protocol.Sandbox, path string) (fd int, ok bool)
	// Generation changes when a helper that starts now is confined otherwise than one of
	// before.
	Generation() uint64
	// Start starts a helper process confined as s says and returns a connection to
	// it. Closing the connection ends the helper. ctx bounds the start only. If the
	// connection has a method Current() bool, a helper for which it returns false gets
	// no further requests. If it has a method Gone() <-chan struct{}, that channel is
	// closed when the helper has ended and changes nothing any more.
	Start(ctx context.Context, s *protocol.Sandbox) (rpc.Connection, error)
}

// Config is what a Service may be told; the zero value works.
type Config struct {
	// Sandbox is nil where there is none: requests with a sandbox are then refused.
	Sandbox Sandboxer
	// Host is shared by the Services of one server; nil means that of the process.
	Host *Host
	// Logger is told what the client cannot be. nil discards.
	Logger *slog.Logger
}

// Service serves fs/* for one connection.
type Service struct {
	notifier rpc.Notifier
	sandbox  Sandboxer
	host     *Host
	logger   *slog.Logger
	confined bool // its answers must fit the messages between helper and server

	ctx    context.Context // until Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the goroutines of watches

	handles handles
	watches watches
	missing missing
	helpers helpers
}

// NewService makes a Service that sends its notifications to n.
func NewService(n rpc.Notifier, cfg Config) *Service {
	s := &Service{notifier: n, sandbox: cfg.Sandbox, host: cfg.Host, logger: cfg.Logger}
	if s.host == nil {
		s.host = processHost()
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.helpers.service = s
	return s
}

// Close discards the streams that are open for writing, ends watches and helpers and
// waits for them. Requests must have ended.
func (s *Service) Close() error {
	s.cancel()
	s.handles.closeAll()
	s.watches.closeAll()
	s.missing.close()
	s.helpers.closeAll()
	s.wg.Wait()
	return nil
}
