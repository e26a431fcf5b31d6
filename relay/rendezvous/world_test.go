package rendezvous_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A world is a node that listens, and the tokens of its State.
type world struct {
	t     *testing.T
	state rendezvous.State
	node  *rendezvous.Node
	url   string
	audit *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newWorld starts a node over state, memory if nil.
func newWorld(t *testing.T, state rendezvous.State) *world {
	t.Helper()
	if state == nil {
		state = rendezvous.NewMemory()
	}
	w := &world{t: t, state: state, audit: &lockedBuffer{}}
	server := httptest.NewUnstartedServer(nil)
	w.url = "http://" + server.Listener.Addr().String()
	var err error
	if w.node, err = rendezvous.New(rendezvous.Config{State: state, PublicURL: w.url, Audit: w.audit}); err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = w.node.Handler()
	server.Start()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.node.Run(ctx) }()
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := w.node.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		server.Close()
	})
	return w
}

func (w *world) token(spec rendezvous.Token) string {
	w.t.Helper()
	_, text, err := rendezvous.Tokens{State: w.state}.Create(w.t.Context(), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func (w *world) client(token string) *registry.Client {
	w.t.Helper()
	credential, err := registry.Bearer(token)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := registry.New(registry.Config{BaseURLs: []string{w.url}, Credential: credential})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func identity(t *testing.T) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// echo runs an executor of lab that sends back what it gets, until the test ends.
func (w *world) echo(id *seal.Identity) {
	w.t.Helper()
	done := make(chan (<-chan error), 1)
	w.t.Cleanup(func() { // after run's
		if err := <-<-done; err != nil {
			w.t.Errorf("executor: %v", err)
		}
	})
	done <- w.run(id)
}

// run is echo for an executor that may end by itself; its error is sent.
func (w *world) run(id *seal.Identity) <-chan error {
	w.t.Helper()
	client := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: lab}))
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		done <- executor.Run(ctx, executor.Config{
			Registry: client, EnvironmentID: lab, Identity: id,
			Serve: func(ctx context.Context, conn rpc.Connection, _ executor.StreamInfo) {
				for {
					msg, err := conn.Read(ctx)
					if err != nil || conn.Write(ctx, msg) != nil {
						return
					}
				}
			},
		})
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
	return done
}

func (w *world) harness(profile frame.Profile) *harness.Harness {
	w.t.Helper()
	h, err := harness.New(harness.Config{
		Registry:      w.client(w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: lab})),
		EnvironmentID: lab, Identity: identity(w.t), Profile: profile,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// audited waits until an event is in the audit log.
func (w *world) audited(event string) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !strings.Contains(w.audit.String(), `"event":"`+event+`"`); <-tick.C {
		if time.Since(began) > time.Minute {
			w.t.Fatalf("no %s in the audit log", event)
		}
	}
}

func TestFramesPass(t *testing.T) {
	w := newWorld(t, nil)
	w.echo(identity(t))
	for _, p := range []frame.Profile{frame.Codex, frame.Reliable} {
		conn, err := w.harness(p).Connect(t.Context())
		if err != nil {
			t.Fatalf("%s: %v\n%s", p, err, w.audit)
		}
		for _, n := range []int{1, 1000, 3 << 20} {
			want := bytes.Repeat([]byte{byte(n)}, n)
			if err := conn.Write(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			got, err := conn.Read(t.Context())
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %d bytes came back as %d, %v", p, n, len(got), err)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, event := range []string{"register", "attach", "connect", "validate", "enter", "leave"} {
		w.audited(event)
	}
}

func validation(registration string, resp *registry.ConnectResponse, id *seal.Identity) registry.ValidateRequest {
	return registry.ValidateRequest{
		ExecutorRegistrationID: registration, HarnessPublicKey: id.Public(), HarnessKeyAuthorization: resp.HarnessKeyAuthorization,
	}
}
