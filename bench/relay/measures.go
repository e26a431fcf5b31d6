package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/stats"
)

const (
	roundTrips  = 2000
	oneShots    = 30
	stdoutBytes = 128 << 20
)

// A measure takes figures of one way to an executor.
type measure struct {
	figures []string
	run     func(ctx context.Context, w *way) ([]float64, error)
}

var measures = []measure{
	{[]string{"round trip"}, roundTrip},
	{[]string{"one-shot"}, oneShot},
	{[]string{"stdout", "executor cpu", "relay cpu"}, stdout},
}

// roundTrip is the smallest request there is: p50 in ms.
func roundTrip(ctx context.Context, w *way) ([]float64, error) {
	c, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	// Each message is made before the clock runs.
	var times []time.Duration
	for range roundTrips {
		id, msg, err := c.Encode("environment/status", struct{}{})
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := c.Send(msg); err != nil {
			return nil, err
		}
		if _, err := c.Await(id); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
	}
	return []float64{stats.Milliseconds(stats.Median(times))}, nil
}

// oneShot runs `true` again and again: p50 until closed in ms.
func oneShot(ctx context.Context, w *way) ([]float64, error) {
	c, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	times, err := stats.Repeat(oneShots, func() error {
		p := w.process("true")
		if _, err := c.Request("process/start", p); err != nil {
			return err
		}
		return c.ReadUntil(func(m raw.Message) bool { return m.Closes(p.ProcessID) })
	})
	return []float64{stats.Milliseconds(stats.Median(times))}, err
}

// stdout lets a child print: MB a second, and the executor's and the relay's processor
// time in ms a MB.
func stdout(ctx context.Context, w *way) ([]float64, error) {
	c, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	before, err := w.cpu()
	if err != nil {
		return nil, err
	}
	p, got, begin := w.process("head", "-c", fmt.Sprint(stdoutBytes), "/dev/zero"), 0, time.Now()
	if _, err := c.Request("process/start", p); err != nil {
		return nil, err
	}
	err = c.ReadUntil(func(m raw.Message) bool {
		if m.Method == "process/output" {
			got += m.DataBytes("chunk")
		}
		return m.Closes(p.ProcessID)
	})
	took := time.Since(begin)
	if err == nil && got != stdoutBytes {
		err = fmt.Errorf("%d bytes of output arrived, want %d", got, stdoutBytes)
	}
	if err != nil {
		return nil, err
	}
	after, err := w.cpu()
	const mb = stdoutBytes / 1e6
	return []float64{
		stats.Rate(got, took),
		stats.Milliseconds(after[0]-before[0]) / mb, stats.Milliseconds(after[1]-before[1]) / mb,
	}, err
}
