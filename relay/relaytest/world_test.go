package relaytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

const (
	env      = "lab"
	relayURL = "http://localhost:8080" // http, and still no machine but the relay's
)

// A world is a relay, executors and harnesses, each on a host of a simulated network.
// Nothing of it is a fake but the network.
type world struct {
	t       *testing.T
	seed    uint64
	network *simnet.Network
	trace   *simnet.Trace
	frames  atomic.Int64 // that the ends read and wrote
	dials   sync.Map     // *atomic.Int64 by host: sockets that were made
	// record, if set, is given all frames: what the relay routes, and nothing else.
	record func(msg []byte)

	relayHost *simnet.Host
	state     rendezvous.State
	// Tokens for env.
	executorToken, harnessToken string

	mu       sync.Mutex
	server   *http.Server
	stopNode func()

	closing []func()
}

// newWorld makes a world with a relay that runs. close must be called, in the bubble.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, seed: seed, network: simnet.New(seed), trace: new(simnet.Trace), state: rendezvous.NewMemory()}
	w.relayHost = w.network.Host("localhost")
	w.executorToken = w.issue(rendezvous.RoleExecutor, env)
	w.harnessToken = w.issue(rendezvous.RoleHarness, env)
	w.startRelay()
	return w
}

// issue makes a token.
func (w *world) issue(role rendezvous.Role, environment string) string {
	w.t.Helper()
	_, token, err := rendezvous.Tokens{State: w.state}.Create(w.t.Context(), rendezvous.Token{Role: role, Environment: environment})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// close ends everything, the latest first.
func (w *world) close() {
	for i := len(w.closing) - 1; i >= 0; i-- {
		w.closing[i]()
	}
	w.closing = nil
	w.stopRelay()
	if err := w.state.Close(); err != nil {
		w.t.Errorf("state: %v", err)
	}
	// What the end sets off is still under way, and time stands still in a bubble that
	// is over.
	pause(2 * time.Minute)
	if w.t.Failed() {
		w.t.Logf("seed %d, trace of frames:\n%s", w.seed, w.trace)
	}
}

// startRelay starts a node over the state that there is.
func (w *world) startRelay() {
	w.t.Helper()
	w.trace.Note("relay starts")
	node, err := rendezvous.New(rendezvous.Config{
		State: w.state, PublicURL: relayURL, Logger: traceLogger(w.trace, "relay"),
	})
	if err != nil {
		w.t.Fatalf("rendezvous: %v", err)
	}
	l, err := w.relayHost.Listen(8080)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := node.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("rendezvous: %v", err)
		}
	})
	server := &http.Server{Handler: node.Handler()}
	running.Go(func() { _ = server.Serve(l) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = server
	w.stopNode = func() {
		_ = server.Close() // new connections are refused from now on
		w.relayHost.CutAll()
		drain, done := context.WithTimeout(context.Background(), time.Second)
		_ = node.Drain(drain) // the sockets are gone already
		done()
		cancel()
		running.Wait()
	}
}

// stopRelay ends the relay as a crash does: its sockets are reset.
func (w *world) stopRelay() {
	w.mu.Lock()
	stop := w.stopNode
	w.stopNode = nil
	w.mu.Unlock()
	if stop != nil {
		w.trace.Note("relay stops")
		stop()
	}
}

// registryClient asks the relay's registry from host, with the world's token.
func (w *world) registryClient(host *simnet.Host, token string) *registry.Client {
	w.t.Helper()
	credential, err := registry.Bearer(token)
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{DialContext: host.Dial, IdleConnTimeout: 30 * time.Second}
	c, err := registry.New(registry.Config{BaseURLs: []string{relayURL}, Credential: credential, Transport: transport})
	if err != nil {
		w.t.Fatal(err)
	}
	w.closing = append(w.closing, c.Close)
	return c
}

// dialer connects from host, and has the frames in the trace.
func (w *world) dialer(host *simnet.Host) relay.Dialer {
	dial := relay.NewDialer(relay.DialConfig{NetDial: host.Dial})
	var sockets atomic.Int64
	return func(ctx context.Context, url string) (relay.Carrier, error) {
		name := fmt.Sprintf("%s/%d", host.Name(), sockets.Add(1))
		carrier, err := dial(ctx, url)
		if err != nil {
			w.trace.Note("%s: %v", name, err)
			return nil, err
		}
		w.trace.Note("%s connected", name)
		w.dialled(host.Name()).Add(1)
		return &counted{Connection: simnet.Watched(carrier, w.trace, name), world: w}, nil
	}
}

func (w *world) dialled(name string) *atomic.Int64 {
	n, _ := w.dials.LoadOrStore(name, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// connects is how many sockets the host with that name has made.
func (w *world) connects(name string) int64 { return w.dialled(name).Load() }

// counted counts frames, and has them recorded.
type counted struct {
	rpc.Connection
	world *world
}

func (c *counted) Read(ctx context.Context) ([]byte, error) {
	msg, err := c.Connection.Read(ctx)
	if err == nil {
		c.count(msg)
	}
	return msg, err
}

func (c *counted) Write(ctx context.Context, msg []byte) error {
	c.count(msg)
	return c.Connection.Write(ctx, msg)
}

func (c *counted) count(msg []byte) {
	c.world.frames.Add(1)
	if c.world.record != nil {
		c.world.record(msg)
	}
}

// A runner is an executor that runs.
type runner struct {
	host     *simnet.Host
	identity *seal.Identity
	// served counts the streams that began.
	served atomic.Int64
	// ended gives the error of Run, once.
	ended  chan error
	cancel context.CancelFunc
}

// serveFunc serves a stream, as executor.Config.Serve does.
type serveFunc func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo)

// echoes serves streams with an echo that fails the test for what is not as it was sent.
func (w *world) echoes(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
	if err := echo(ctx, conn, func() {}); err != nil {
		w.t.Errorf("seed %d: stream %s at the executor: %v", w.seed, info.ID, err)
	}
}

// executor runs an executor on the host with that name until the world ends.
func (w *world) executor(name string, identity *seal.Identity, serve serveFunc) *runner {
	w.t.Helper()
	if identity == nil {
		identity = newIdentity(w.t)
	}
	host := w.network.Host(name)
	r := &runner{host: host, identity: identity, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	cfg := executor.Config{
		Registry: w.registryClient(host, w.executorToken), EnvironmentID: env, Identity: identity, Dial: w.dialer(host),
		Serve: func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
			r.served.Add(1)
			serve(ctx, conn, info)
		},
		Logger: traceLogger(w.trace, name), Rand: rand.New(rand.NewPCG(w.seed, uint64(len(w.closing)))),
	}
	var running sync.WaitGroup
	running.Go(func() {
		err := executor.Run(ctx, cfg)
		w.trace.Note("%s: ended: %v", name, err)
		r.ended <- err
	})
	w.closing = append(w.closing, func() { cancel(); running.Wait() })
	return r
}

// harness makes a harness on the host with that name.
func (w *world) harness(name string, profile frame.Profile) *harness.Harness {
	w.t.Helper()
	return w.harnessAs(name, profile, newIdentity(w.t), w.harnessToken)
}

func (w *world) harnessAs(name string, profile frame.Profile, identity *seal.Identity, token string) *harness.Harness {
	w.t.Helper()
	host := w.network.Host(name)
	h, err := harness.New(harness.Config{
		Registry: w.registryClient(host, token), EnvironmentID: env, Identity: identity, Dial: w.dialer(host), Profile: profile,
		Logger: traceLogger(w.trace, name), Rand: rand.New(rand.NewPCG(w.seed, 1000+uint64(len(w.closing)))),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// connect opens a stream and a conversation on it, which ends with the world.
func (w *world) connect(h *harness.Harness) *conversation {
	w.t.Helper()
	conn, err := h.Connect(w.t.Context())
	if err != nil {
		w.t.Fatalf("seed %d: connect: %v", w.seed, err)
	}
	w.closing = append(w.closing, func() { conn.Close() })
	return &conversation{conn: conn, rand: rand.New(rand.NewPCG(w.seed, 7)), most: 100_000}
}
