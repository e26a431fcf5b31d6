package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/bench/raw"
)

// A point is what n streams to one executor cost at once.
type point struct {
	Streams int `json:"streams"`
	// Calls is how many round trips there were a second, over all streams.
	Calls float64 `json:"callsPerSecond"`
	// Executor and Relay are the processor time of a round trip in microseconds.
	Executor float64 `json:"executorMicroseconds"`
	Relay    float64 `json:"relayMicroseconds"`
}

// curve takes points from 1 to 128 streams, each with the same number of round trips.
func curve(ctx context.Context, w *way, calls int) ([]point, error) {
	var points []point
	for n := 1; n <= 128; n *= 2 {
		p, err := measureStreams(ctx, w, n, calls)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, nil
}

func measureStreams(ctx context.Context, w *way, n, calls int) (point, error) {
	clients := make([]*raw.Client, 0, n)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	for range n {
		c, err := w.dial(ctx)
		if err != nil {
			return point{}, err
		}
		clients = append(clients, c)
	}
	before, err := w.cpu()
	if err != nil {
		return point{}, err
	}
	begin := time.Now()
	var group errgroup.Group
	for _, c := range clients {
		group.Go(func() error {
			for range calls / n {
				if err := c.Call("environment/status", struct{}{}, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return point{}, err
	}
	took := time.Since(begin)
	after, err := w.cpu()
	total := float64(calls / n * n)
	return point{
		Streams: n, Calls: total / took.Seconds(),
		Executor: float64((after[0] - before[0]).Microseconds()) / total,
		Relay:    float64((after[1] - before[1]).Microseconds()) / total,
	}, err
}
