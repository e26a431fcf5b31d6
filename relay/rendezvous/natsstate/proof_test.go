package natsstate_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/seal"
)

// S-R1 over three nodes: an executor at one of them does not lose its place to a copied
// key at another, and does to a later executor that has its keys, whichever node it is at.
func TestSR1ThreeNodes(t *testing.T) {
	t.Parallel()
	a, b, c, token := threeNodes(t)
	harnessToken := token(rendezvous.RoleHarness, env)
	key, own := identity(t), identity(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	run := func(n *node, id *seal.Identity) <-chan error {
		done := make(chan error, 1)
		running.Go(func() {
			done <- executor.Run(ctx, executor.Config{
				Registry: client(t, token(rendezvous.RoleExecutor, env), n), EnvironmentID: env, Identity: id, Serve: echo,
			})
		})
		return done
	}
	first := run(a, key)
	var way *registry.ConnectResponse
	found := func(at *node) error {
		var err error
		if way, err = client(t, harnessToken, c).Connect(t.Context(), env, identity(t).Public()); err == nil && host(t, way.URL) != at.url {
			err = errors.New("it is at " + host(t, way.URL))
		}
		return err
	}
	eventually(t, "find the executor", func() error { return found(a) })

	mallory := token(rendezvous.RoleExecutor, "*")
	inUse := func(what string, err error) {
		t.Helper()
		if refused, ok := errors.AsType[*registry.StatusError](err); !ok || refused.Status != http.StatusConflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, n := range []*node{a, b, c} {
		m := client(t, mallory, n)
		_, err := m.Register(t.Context(), env, way.ExecutorPublicKey)
		inUse("the victim's key", err)
		_, err = m.Register(t.Context(), env, own.Public())
		inUse("an own key", err)
		_, err = m.RegisterProved(t.Context(), env, registry.Registrant{Identity: own, Instance: "mallory"})
		inUse("an own key with a proof", err)
	}
	h, err := harness.New(harness.Config{Registry: client(t, harnessToken, b), EnvironmentID: env, Identity: identity(t)})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := h.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Close()

	// A challenge of one node is answered at another.
	reg, err := client(t, mallory, c).RegisterProved(t.Context(), env, registry.Registrant{Identity: key, Instance: "moved"})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := "ws" + b.url[len("http"):] + reg.URL[len(c.url)-len("http")+len("ws"):]
	carrier, err := relay.Dial(t.Context(), elsewhere, relay.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer carrier.Close()
	eventually(t, "find the new one", func() error { return found(b) })
	select {
	case err := <-first:
		if !errors.Is(err, executor.ErrReplaced) {
			t.Errorf("the first: %v", err)
		}
	case <-time.After(patience):
		t.Error("the first goes on")
	}
}
