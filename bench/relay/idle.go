package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// idle attaches executors that do nothing to a relay of their own, and returns what each
// costs it in KiB of resident memory. What the first ones bring into memory serves all.
func (l *lab) idle(ctx context.Context, n int) (float64, error) {
	server, err := l.startRelay(ctx, "idle")
	if err != nil {
		return 0, err
	}
	defer func() { _ = server.Stop() }()
	clients := make([]*registry.Client, (n+warm)/perToken+1)
	for i := range clients {
		if clients[i], err = l.registry(ctx, server); err != nil {
			return 0, err
		}
	}
	identity, err := seal.NewIdentity()
	if err != nil {
		return 0, err
	}
	carriers := make([]relay.Carrier, n+warm)
	defer func() {
		for _, c := range carriers {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	attach := func(from, to int) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(16)
		for i := from; i < to; i++ {
			group.Go(func() error {
				reg, err := clients[i/perToken].Register(ctx, fmt.Sprintf("idle-%d", i), identity.Public())
				if err != nil {
					return err
				}
				carriers[i], err = relay.Dial(ctx, reg.URL, relay.DialConfig{})
				return err
			})
		}
		return group.Wait()
	}
	if err := attach(0, warm); err != nil {
		return 0, err
	}
	before, err := settled(ctx, server)
	if err != nil {
		return 0, err
	}
	if err := attach(warm, warm+n); err != nil {
		return 0, err
	}
	after, err := settled(ctx, server)
	return float64(after-before) / 1024 / float64(n), err
}

// warm is how many executors are attached before anything is measured.
const warm = 100

// perToken is how many executors share a token, which may have a part of the relay's sockets only.
const perToken = 1000

// registry makes a client of the relay's registry with a token of its own.
func (l *lab) registry(ctx context.Context, server *target.Server) (*registry.Client, error) {
	token, err := l.token(ctx, "idle", "executor", "*")
	if err != nil {
		return nil, err
	}
	credential, err := registry.Bearer(token)
	if err != nil {
		return nil, err
	}
	return registry.New(registry.Config{BaseURLs: []string{server.URL}, Credential: credential})
}

// settled is the server's memory once it has stopped to grow and to shrink.
func settled(ctx context.Context, s *target.Server) (int64, error) {
	last, err := s.RSS()
	for range 20 {
		if err != nil {
			return 0, err
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		var now int64
		if now, err = s.RSS(); err == nil && now >= last-last/100 && now <= last+last/100 {
			return now, nil
		}
		last = now
	}
	return last, err
}
