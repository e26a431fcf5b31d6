package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

const env = "lab"

// A world is everything around one executor: a registry and a rendezvous that do what
// a test tells them. It runs in a bubble of synctest, in which time is free.
type world struct {
	t        *testing.T
	identity *seal.Identity
	harness  *seal.Identity // of all of them
	begun    time.Time

	mu sync.Mutex
	// register answers the nth register, counted from 0; validate answers a question.
	register func(n int) (status int, body any)
	validate func(ctx context.Context, req registry.ValidateRequest) (status int, body any)
	// refuse is why the nth attempt to connect fails, nil for a connection.
	refuse func(n int, url string) error
	// wrap puts something around the executor's end of a connection.
	wrap func(relay.Carrier) relay.Carrier

	registers, dials []event
	validates        []validation
	answer           registry.RegisterResponse
	dropped          int // how often kept connections to the registry were given up
	peers            chan *peer
}

// An event is something that the executor did, at a time from the beginning.
type event struct {
	at  time.Duration
	url string
}

// A validation is a question to the registry.
type validation struct {
	stream string
	req    registry.ValidateRequest
}

func newWorld(t *testing.T) *world {
	t.Helper()
	identity, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	harness, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, identity: identity, harness: harness, begun: time.Now(), peers: make(chan *peer, 1024),
		register: func(int) (int, any) { return 200, registration(0) },
		validate: func(context.Context, registry.ValidateRequest) (int, any) {
			return 200, registry.ValidateResponse{Valid: true}
		},
		refuse: func(int, string) error { return nil },
		wrap:   func(c relay.Carrier) relay.Carrier { return c },
	}
}

// registration is the nth good answer to register.
func registration(n int) registry.RegisterResponse {
	return registry.RegisterResponse{
		EnvironmentID: env, URL: "wss://node" + string(rune('a'+n)) + ".example/relay", SecurityProfile: registry.SecurityProfile,
		ExecutorRegistrationID: "reg-" + string(rune('a'+n)),
	}
}

// RoundTrip implements http.RoundTripper: it is the registry.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var status int
	var out any
	switch path.Base(r.URL.Path) {
	case registry.OpRegister:
		w.mu.Lock()
		n := len(w.registers)
		w.registers = append(w.registers, event{time.Since(w.begun), r.URL.Host})
		answer := w.register
		w.mu.Unlock()
		if status, out = answer(n); status == 0 {
			return nil, errors.New("connection refused")
		}
		if reg, ok := out.(registry.RegisterResponse); ok {
			w.mu.Lock()
			w.answer = reg
			w.mu.Unlock()
		}
	case registry.OpValidate:
		var req registry.ValidateRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.validates = append(w.validates, validation{r.Header.Get(registry.HeaderStreamID), req})
		answer := w.validate
		w.mu.Unlock()
		status, out = answer(r.Context(), req)
	}
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	rec.WriteHeader(status)
	if text, ok := out.(string); ok {
		_, _ = rec.WriteString(text)
	} else if err := json.NewEncoder(rec).Encode(out); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

// CloseIdleConnections is what http.Client looks for.
func (w *world) CloseIdleConnections() { w.set(func() { w.dropped++ }) }

// dial is the executor's way to the rendezvous.
func (w *world) dial(ctx context.Context, url string) (relay.Carrier, error) {
	w.mu.Lock()
	n := len(w.dials)
	w.dials = append(w.dials, event{time.Since(w.begun), url})
	refuse, wrap := w.refuse, w.wrap
	w.mu.Unlock()
	if err := refuse(n, url); err != nil {
		return nil, err
	}
	near, far := simnet.Carriers(simnet.CarrierConfig{Seed: uint64(n)})
	p := newPeer(w, far)
	select {
	case w.peers <- p:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return wrap(near), nil
}

// set changes what the world does.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// config is that of the executor, which echoes what it is sent.
func (w *world) config() Config {
	client, err := registry.New(registry.Config{BaseURLs: []string{"http://localhost:1", "http://localhost:2"}, Transport: w})
	if err != nil {
		w.t.Fatal(err)
	}
	return Config{
		Registry: client, EnvironmentID: env, Identity: w.identity, Dial: w.dial, Serve: echo,
		Rand: rand.New(rand.NewPCG(1, 2)),
	}
}

// echo sends back what comes.
func echo(ctx context.Context, conn rpc.Connection, _ StreamInfo) {
	for {
		msg, err := conn.Read(ctx)
		if err != nil || conn.Write(ctx, msg) != nil {
			return
		}
	}
}

// run starts the executor; stop ends it and returns what Run did.
func (w *world) run(cfg Config) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

// peer waits for the executor's next connection.
func (w *world) peer() *peer {
	w.t.Helper()
	select {
	case p := <-w.peers:
		return p
	case <-time.After(time.Hour):
		w.t.Fatal("the executor does not connect")
		return nil
	}
}

// dialled returns when the executor has tried to connect.
func (w *world) dialled() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]event(nil), w.dials...)
}

func (w *world) registered() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]event(nil), w.registers...)
}

func (w *world) validated() []validation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]validation(nil), w.validates...)
}

// bubble runs test in a bubble with a world whose executor is connected.
func bubble(t *testing.T, test func(w *world, p *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.run(w.config())
		test(w, w.peer())
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
