package relaytest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// A middle is a relay in the hands of somebody hostile. It routes as a relay must, and
// between it and each end is a carrier whose filters do what they like.
type middle struct {
	t        *testing.T
	seed     uint64
	registry *fakeRegistry
	trace    *simnet.Trace

	mu       sync.Mutex
	sockets  int
	executor *simnet.Carrier            // the relay's end of the executor's socket
	owners   map[string]*simnet.Carrier // the relay's ends of the harnesses' sockets, by stream
	latest   map[string]*simnet.Carrier // likewise, by name of the harness
	routers  sync.WaitGroup

	// served are the streams that were served, messages what came over them.
	served, messages atomic.Int64

	// execForth sees what the executor sends, execBack what it is sent.
	execForth, execBack simnet.Filter
}

func newMiddle(t *testing.T, seed uint64) *middle {
	m := &middle{
		t: t, seed: seed, registry: &fakeRegistry{}, trace: new(simnet.Trace),
		owners: map[string]*simnet.Carrier{}, latest: map[string]*simnet.Carrier{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d, trace of frames:\n%s", seed, m.trace)
		}
	})
	return m
}

// carriers makes the socket of an end.
func (m *middle) carriers(name string, forth, back simnet.Filter) (*simnet.Carrier, *simnet.Carrier) {
	m.sockets++
	return simnet.Carriers(simnet.CarrierConfig{
		Seed: m.seed + uint64(m.sockets), Latency: 5 * time.Millisecond, Jitter: time.Millisecond,
		Forth: forth, Back: back, Trace: m.trace, Name: fmt.Sprintf("%s/%d", name, m.sockets),
	})
}

// dialExecutor is the executor's relay.Dialer.
func (m *middle) dialExecutor(context.Context, string) (relay.Carrier, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	near, far := m.carriers("executor", m.execForth, m.execBack)
	if m.executor != nil {
		m.executor.Close()
	}
	m.executor = far
	m.routers.Go(func() { // ends with the socket
		for {
			msg, err := far.Read(context.Background())
			if err != nil {
				return
			}
			f, err := frame.Decode(msg)
			if err != nil {
				continue
			}
			m.mu.Lock()
			to := m.owners[f.GetStreamId()]
			m.mu.Unlock()
			if to != nil {
				_ = to.Write(context.Background(), msg)
			}
		}
	})
	return near, nil
}

// dialHarness returns the relay.Dialer of the harness with that name. forth sees what
// it sends, back what it is sent.
func (m *middle) dialHarness(name string, forth, back simnet.Filter) relay.Dialer {
	return func(context.Context, string) (relay.Carrier, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		near, far := m.carriers(name, forth, back)
		m.latest[name] = far
		m.routers.Go(func() { // ends with the socket
			for {
				msg, err := far.Read(context.Background())
				if err != nil {
					return
				}
				m.mu.Lock()
				to := m.executor
				if f, err := frame.Decode(msg); err == nil {
					m.owners[f.GetStreamId()] = far
				}
				m.mu.Unlock()
				if to != nil {
					_ = to.Write(context.Background(), msg)
				}
			}
		})
		return near, nil
	}
}

// cut breaks the socket of the executor, or of the harness with that name.
func (m *middle) cut(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trace.Note("%s is cut", name)
	if name == "executor" {
		m.executor.Cut()
	} else {
		m.latest[name].Cut()
	}
}

// toExecutor forges a frame to the executor.
func (m *middle) toExecutor(msg []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.executor.Inject(msg)
}

// runExecutor runs an executor whose streams are echoes until stop is called.
func (m *middle) runExecutor() (stop func()) {
	m.t.Helper()
	identity := newIdentity(m.t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { // ends with ctx; stop waits for it
		ended <- executor.Run(ctx, executor.Config{
			Registry: m.registry.client(m.t), EnvironmentID: "lab", Identity: identity, Dial: m.dialExecutor,
			Serve: func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
				m.served.Add(1)
				if err := echo(ctx, conn, func() { m.messages.Add(1) }); err != nil {
					m.t.Errorf("stream %s: %v", info.ID, err)
				}
			},
			Logger: traceLogger(m.trace, "executor"), Rand: rand.New(rand.NewPCG(m.seed, 1)),
		})
	}()
	settle() // it is there then, in every run
	return func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			m.t.Errorf("executor: %v", err)
		}
		m.mu.Lock()
		if m.executor != nil {
			m.executor.Close()
		}
		for _, c := range m.latest {
			c.Close()
		}
		m.mu.Unlock()
		m.routers.Wait()
	}
}

// harness makes a harness with that name and an identity of its own.
func (m *middle) harness(name string, profile frame.Profile, forth, back simnet.Filter) *harness.Harness {
	m.t.Helper()
	h, err := harness.New(harness.Config{
		Registry: m.registry.client(m.t), EnvironmentID: "lab", Identity: newIdentity(m.t),
		Dial: m.dialHarness(name, forth, back), Profile: profile, Logger: traceLogger(m.trace, name),
		Rand: rand.New(rand.NewPCG(m.seed, 2)),
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

// connect opens a stream and a conversation on it.
func (m *middle) connect(h *harness.Harness) *conversation {
	m.t.Helper()
	conn, err := h.Connect(m.t.Context())
	if err != nil {
		m.t.Fatalf("connect: %v", err)
	}
	return &conversation{conn: conn, rand: rand.New(rand.NewPCG(m.seed, 7)), most: 150_000}
}

func newIdentity(t *testing.T) *seal.Identity {
	t.Helper()
	identity, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// traceLogger puts what is logged into the trace.
func traceLogger(trace *simnet.Trace, name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(traceWriter{trace, name}, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

type traceWriter struct {
	trace *simnet.Trace
	name  string
}

func (w traceWriter) Write(p []byte) (int, error) {
	w.trace.Note("%s: %.300s", w.name, p[:max(len(p)-1, 0)])
	return len(p), nil
}
