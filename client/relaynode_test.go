package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
)

// wire is a client's way to the network, which can be cut and closed.
type wire struct {
	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

var errWireClosed = errors.New("no network")

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = conn.Close()
		return nil, errWireClosed
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

// cut cuts what there is; nothing new is made until open.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

func (w *wire) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = false
}

// realRelay runs the real relay and an executor at it, and returns a URL and a token for
// harnesses.
func realRelay(t *testing.T) (url, token string) {
	t.Helper()
	state := rendezvous.NewMemory()
	tokens := rendezvous.Tokens{State: state}
	issue := func(role rendezvous.Role) string {
		_, secret, err := tokens.Create(t.Context(), rendezvous.Token{Role: role, Environment: relayEnv})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	web := httptest.NewUnstartedServer(nil)
	base := "http://" + web.Listener.Addr().String()
	node, err := rendezvous.New(rendezvous.Config{State: state, PublicURL: base})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = node.Handler()
	web.Start()
	srv, err := execserver.New(execserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cred, err := registry.Bearer(issue(rendezvous.RoleExecutor))
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(registry.Config{BaseURLs: []string{base}, Credential: cred})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = node.Run(ctx) })
	wg.Go(func() {
		err := executor.Run(ctx, executor.Config{
			Registry: reg, EnvironmentID: relayEnv, Identity: newIdentity(t),
			Serve: func(ctx context.Context, conn rpc.Connection, _ executor.StreamInfo) {
				_ = srv.ServeConnection(ctx, conn, server.ConnectionOptions{})
			},
		})
		if err != nil {
			t.Errorf("executor: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = srv.Close()
		reg.Close()
		web.Close()
	})
	return "relay" + strings.TrimPrefix(base, "http") + "/" + relayEnv, issue(rendezvous.RoleHarness)
}

// The real relay. A client that lost the network for longer than its stream lives has
// its session back, although relay and executor still keep the stream.
func TestRealRelay(t *testing.T) {
	t.Parallel()
	url, token := realRelay(t)
	eachProfile(t, func(t *testing.T, profile frame.Profile) {
		w := new(wire)
		opts := relayOptions(t)
		opts.BearerToken = token
		opts.Relay.Profile = profile
		opts.Relay.StreamLife = 200 * time.Millisecond
		opts.Relay.Dial = relay.NewDialer(relay.DialConfig{NetDial: w.dial})
		lost := make(chan struct{}, 100)
		opts.OnState = func(change client.StateChange) {
			if change.State == client.StateConnecting && change.Err != nil {
				lost <- struct{}{}
			}
		}
		c, err := client.Dial(t.Context(), url, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		session := c.SessionID()
		p, err := c.Start(t.Context(), client.Command{Argv: []string{"cat"}, Stdin: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one\n", "two\n"} {
			if _, err := p.Stdin.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			w.cut()
			<-lost // the stream has ended
			w.open()
		}
		if err := p.CloseStdin(); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(p.Stdout)
		if err != nil || string(out) != "one\ntwo\n" || c.SessionID() != session {
			t.Errorf("%q, %v, session %s of %s", out, err, c.SessionID(), session)
		}
	})
}
