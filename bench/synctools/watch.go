package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// A watched is what a tool that watches has shown.
type watched struct {
	There, Here []time.Duration // from a write on one side until it is read on the other
	Usage       target.Usage    // of all processes meanwhile
}

const (
	// lookPause is between two looks at whether a file has come.
	lookPause = 500 * time.Microsecond
	// comeTimeout is how long a file may take to come. Mutagen's poll is 10 s apart.
	comeTimeout = 25 * time.Second
)

// watchTurn lets a pair watch, writes one file n times on each side, and adds what that
// took.
func watchTurn(ctx context.Context, p *pair, r *rand.Rand, n int, w *watched) (err error) {
	if err := p.begin(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end(context.WithoutCancel(ctx))) }()
	// It watches once a file has come each way.
	for i := range 2*n + 2 {
		if i == 2 {
			before, err := p.usage(true)
			if err != nil {
				return err
			}
			defer func() {
				after, err2 := p.usage(false)
				w.Usage = w.Usage.Then(after.Since(before))
				err = errors.Join(err, err2)
			}()
		}
		from, to, name, times := p.here, p.there, "written-here", &w.There
		if i%2 == 1 {
			from, to, name, times = p.there, p.here, "written-there", &w.Here
		}
		took, err := oneFile(ctx, filepath.Join(from, name), filepath.Join(to, name), r.Uint64())
		if err != nil {
			return err
		}
		if i >= 2 {
			*times = append(*times, took)
		}
		// So that no write is in step with a tool's own clock.
		if err := wait(ctx, 100*time.Millisecond+time.Duration(r.Int64N(int64(250*time.Millisecond)))); err != nil {
			return err
		}
	}
	return nil
}

// usage is what the processes of a pair that watches have cost.
func (p *pair) usage(reset bool) (u target.Usage, err error) {
	for _, s := range []*target.Server{p.server, p.watcher} {
		if s == nil {
			continue
		}
		if reset {
			if err := s.ResetPeak(); err != nil {
				return u, err
			}
		}
		one, err := s.Usage()
		if err != nil {
			return u, err
		}
		u = u.Plus(one)
	}
	return u, nil
}

// oneFile writes a file and returns how long it takes until the other one is the same.
func oneFile(ctx context.Context, from, to string, token uint64) (time.Duration, error) {
	data := fmt.Sprintf("written as %016x\n", token)
	ctx, cancel := context.WithTimeoutCause(ctx, comeTimeout, fmt.Errorf("%s has not come after %v", filepath.Base(from), comeTimeout))
	defer cancel()
	begin := time.Now()
	if err := os.WriteFile(from, []byte(data), 0o644); err != nil {
		return 0, err
	}
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		if got, err := os.ReadFile(to); err == nil && string(got) == data {
			return time.Since(begin), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// wait returns after d, or with the cause when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
