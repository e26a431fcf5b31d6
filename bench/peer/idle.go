package main

import (
	"context"

	"github.com/wsd-dev/wsd/bench/stats"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
)

// idleConnections is how many are opened. The codex exec-server gets fewer, which
// its figure does not mind and the run's time does.
var idleConnections = map[target.Kind]int{target.Wsd: 1000, target.Codex: 250}

// idle starts another server and opens many connections: KiB of resident memory
// each, and ms until it listened.
func idle(ctx context.Context, s *subject) ([]float64, error) {
	server, err := target.Start(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Stop() }()
	n := idleConnections[s.cfg.Kind]
	clients := make([]*raw.Client, 0, n)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	open := func(count int) error {
		for range count {
			c, err := dial(ctx, server.Addr, false)
			if err != nil {
				return err
			}
			clients = append(clients, c)
			// An answer after the handshake: the server has done all it does for it.
			if err := c.Call("environment/status", struct{}{}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	// What the first connections bring into memory serves all of them.
	if err := open(10); err != nil {
		return nil, err
	}
	before, err := server.RSS()
	if err != nil {
		return nil, err
	}
	if err := open(n); err != nil {
		return nil, err
	}
	after, err := server.RSS()
	return []float64{float64(after-before) / 1024 / float64(n), stats.Milliseconds(server.Started)}, err
}
