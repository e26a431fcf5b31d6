package executor

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A Config says where an executor registers, who it is, and what serves its streams.
// Registry, EnvironmentID, Identity and Serve must be set.
type Config struct {
	Registry      *registry.Client
	EnvironmentID string
	// Identity is kept for all connections and registrations.
	Identity *seal.Identity
	// Dial connects to the rendezvous; nil is NewDialer with RequestID.
	Dial relay.Dialer

	// Serve serves one stream until conn ends, in a goroutine of its own; when it
	// returns, conn is closed. ctx ends with Run, which waits for it.
	Serve func(ctx context.Context, conn rpc.Connection, info StreamInfo)
	// Authorize says whether the harness with this key may come in, besides what the
	// registry says; nil takes whoever the registry takes. It must not wait.
	Authorize func(*seal.PublicKey) error

	// StreamLife is how long a reliable stream outlives contact with its harness; 0 is
	// the default of relay/arq.
	StreamLife time.Duration

	// OnConnect, if set, is called each time that there is a connection to the relay. It
	// must not wait.
	OnConnect func()

	Trace  relay.Trace
	Logger *slog.Logger
	// Rand spreads waits; nil is seeded by chance.
	Rand *rand.Rand
}

// A StreamInfo says whose stream it is.
type StreamInfo struct {
	// ID is the harness's name for the stream: any text. Instance is this executor's,
	// and is not used twice.
	ID       string
	Instance uint64
	Profile  frame.Profile
	// Peer is the key that the harness has proved to have.
	Peer *seal.PublicKey
}

// LogValue implements slog.LogValuer.
func (i StreamInfo) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", i.ID), slog.Uint64("instance", i.Instance),
		slog.String("profile", string(i.Profile)), slog.Any("peer", i.Peer))
}

// check says what is missing.
func (c *Config) check() error {
	switch {
	case c.Registry == nil:
		return errors.New("executor: no registry")
	case c.Identity == nil:
		return errors.New("executor: no identity")
	case c.Serve == nil:
		return errors.New("executor: nothing to serve streams with")
	}
	return registry.CheckEnvironmentID(c.EnvironmentID)
}
