package natsstate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
	"github.com/wsd-dev/wsd/relay/seal"
)

// patience bounds what must happen soon.
const patience = 60 * time.Second

const env = "lab"

// A node is a relay node that can be killed.
type node struct {
	*rendezvous.Node
	url      string
	listener *listener
	stop     context.CancelFunc // heartbeats and sweeps
	done     sync.WaitGroup
}

// A listener knows its connections, to cut them all.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, c)
		l.mu.Unlock()
	}
	return c, err
}

// cut is what the kernel does when the process dies.
func (l *listener) cut() {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
}

// startNode starts a node with a connection of its own to one of the servers.
func startNode(t *testing.T, id string, c *natstest.Cluster) *node {
	t.Helper()
	cfg, err := natsstate.ParseURL(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	state, err := natsstate.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{url: "http://" + inner.Addr().String(), listener: &listener{Listener: inner}}
	n.Node, err = rendezvous.New(rendezvous.Config{State: state, PublicURL: n.url, NodeURL: n.url, NodeID: id})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: n.Handler()}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.done.Go(func() { server.Serve(n.listener) })
	n.done.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Errorf("node %s: %v", id, err)
		}
	})
	t.Cleanup(func() {
		stop()
		n.listener.cut()
		server.Close()
		n.done.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Drain(ctx); err != nil {
			t.Errorf("drain node %s: %v", id, err)
		}
		state.Close()
	})
	return n
}

// kill ends the node as a machine that loses its power does: nothing is said or undone.
func (n *node) kill() {
	n.stop()
	n.listener.cut()
}

// client is a client of the registry that asks the nodes in this order.
func client(t *testing.T, secret string, nodes ...*node) *registry.Client {
	t.Helper()
	credential, err := registry.Bearer(secret)
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.url)
	}
	c, err := registry.New(registry.Config{BaseURLs: urls, Credential: credential})
	if err != nil {
		t.Fatal(err)
	}
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

// echo returns what it reads.
func echo(ctx context.Context, conn rpc.Connection, _ executor.StreamInfo) {
	for {
		msg, err := conn.Read(ctx)
		if err != nil || conn.Write(ctx, msg) != nil {
			return
		}
	}
}

// eventually repeats call until it returns nil.
func eventually(t *testing.T, what string, call func() error) {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := call()
		if err == nil {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("%s: %v", what, err)
		}
		<-tick.C
	}
}

// host is where a rendezvous URL leads.
func host(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + u.Host
}

// threeNodes starts three nodes over three NATS servers. token makes a token beside them,
// as a command does.
func threeNodes(t *testing.T) (a, b, c *node, token func(rendezvous.Role, string) string) {
	t.Helper()
	cluster := natstest.Start(t, 3)
	a, b, c = startNode(t, "a", cluster), startNode(t, "b", cluster), startNode(t, "c", cluster)
	cfg, err := natsstate.ParseURL(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	state, err := natsstate.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	return a, b, c, func(role rendezvous.Role, environment string) string {
		_, secret, err := rendezvous.Tokens{State: state}.Create(t.Context(), rendezvous.Token{Role: role, Environment: environment})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
}

// Three nodes over three NATS servers. Any node answers any call; an authorization is
// good once, whichever node is asked; and when the node that holds the executor dies, the
// executor is found at another one, and the harness's stream goes on.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	a, b, c, token := threeNodes(t)
	executorToken, harnessToken := token(rendezvous.RoleExecutor, env), token(rendezvous.RoleHarness, env)

	key := identity(t)
	// connect asks a node, with a key of its own each time.
	connect := func(n *node) (*registry.ConnectResponse, *seal.PublicKey, error) {
		own := identity(t).Public()
		r, err := client(t, harnessToken, n).Connect(t.Context(), env, own)
		return r, own, err
	}
	// found waits until node asked says that holder has the executor, and nothing else
	// before than that nobody has.
	found := func(asked *node, holders ...*node) {
		t.Helper()
		eventually(t, "find the executor", func() error {
			r, _, err := connect(asked)
			if err != nil {
				if status, ok := errors.AsType[*registry.StatusError](err); !ok || status.Code != registry.CodeOffline {
					t.Errorf("connect: %v", err)
				}
				return err
			}
			if !slices.ContainsFunc(holders, func(n *node) bool { return n.url == host(t, r.URL) }) {
				return fmt.Errorf("it is said to be at %s", host(t, r.URL))
			}
			return nil
		})
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	running.Go(func() {
		err := executor.Run(ctx, executor.Config{
			Registry: client(t, executorToken, a, b, c), EnvironmentID: env, Identity: key, Serve: echo,
		})
		if err != nil {
			t.Errorf("executor: %v", err)
		}
	})

	// The executor is at a, and all know it.
	for _, n := range []*node{b, c, a} {
		found(n, a)
	}

	// One authorization, thirty who ask all nodes at once: one is told yes.
	for range 5 {
		r, own, err := connect(b)
		if err != nil {
			t.Fatal(err)
		}
		var valid atomic.Int32
		var all sync.WaitGroup
		for i := range 30 {
			asks := client(t, executorToken, []*node{a, b, c}[i%3])
			all.Go(func() {
				ok, err := asks.Validate(t.Context(), env, "s", registry.ValidateRequest{
					ExecutorRegistrationID: r.ExecutorRegistrationID, HarnessPublicKey: own, HarnessKeyAuthorization: r.HarnessKeyAuthorization,
				})
				if err != nil {
					t.Errorf("validate: %v", err)
				}
				if ok {
					valid.Add(1)
				}
			})
		}
		all.Wait()
		if n := valid.Load(); n != 1 {
			t.Errorf("an authorization was good %d times", n)
		}
	}

	// A harness that knows b and c works with the executor at a.
	h, err := harness.New(harness.Config{Registry: client(t, harnessToken, b, c), EnvironmentID: env, Identity: identity(t)})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := h.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	next := 0
	roundTrip := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		text := fmt.Sprint("message ", next)
		next++
		if err := stream.Write(ctx, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Read(ctx); err != nil || string(got) != text {
			t.Fatalf("%q came back as %q, %v", text, got, err)
		}
	}
	for range 10 {
		roundTrip()
	}

	// a hangs: its sockets stay, its heartbeats do not. The others notice in time.
	a.stop()
	start := time.Now()
	eventually(t, "notice that a is dead", func() error {
		for _, n := range []*node{b, c} {
			_, _, err := connect(n)
			if status, ok := errors.AsType[*registry.StatusError](err); !ok || status.Code != registry.CodeOffline {
				return fmt.Errorf("connect: %v", err)
			}
		}
		return nil
	})
	noticed := time.Since(start)
	if limit := 2 * rendezvous.NodeLease; noticed > limit {
		t.Errorf("noticed after %v, which is more than %v", noticed, limit)
	}
	// Then it is gone. The executor goes to another node, the stream goes on there.
	a.kill()
	start = time.Now()
	for range 10 {
		roundTrip()
	}
	resumed := time.Since(start)
	found(c, b, c)
	t.Logf("noticed after %v, the stream went on after %v", noticed, resumed)

	// It is one executor, at one place, for both.
	r, _, err := connect(b)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := connect(c)
	if err != nil {
		t.Fatal(err)
	}
	if host(t, r.URL) != host(t, other.URL) || !r.ExecutorPublicKey.Equal(key.Public()) {
		t.Errorf("b says %s, c says %s", host(t, r.URL), host(t, other.URL))
	}
}
