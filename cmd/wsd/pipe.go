package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
)

// How a server behind a relay shows that it lives: as a client of its own would see it.
const (
	watchEvery   = 30 * time.Second
	watchTimeout = 60 * time.Second
)

// pipe passes messages between two connections until either ends, and closes both: the
// other one orderly if the first ended so.
func pipe(ctx context.Context, a, b rpc.Connection) {
	pass := func(from, to rpc.Connection) error {
		for {
			msg, err := from.Read(ctx)
			if err != nil {
				return err
			}
			if err := to.Write(ctx, msg); err != nil {
				return err
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { endOther(b, pass(a, b)) })
	wg.Go(func() { endOther(a, pass(b, a)) })
	wg.Wait()
	_, _ = a.Close(), b.Close()
}

// endOther closes a connection whose counterpart has ended with err.
func endOther(conn rpc.Connection, err error) {
	if fault, ok := conn.(rpc.FaultCloser); ok && !errors.Is(err, io.EOF) {
		_ = fault.CloseFault(rpc.CloseGoingAway, "the other connection has failed")
		return
	}
	_ = conn.Close()
}

// A watched connection is closed when its other end shows no sign of life for too long.
type watched struct {
	rpc.Connection
	// began is when the Read that waits was called, in nanoseconds after start; 0 while
	// none waits. A sign of life is only seen by a Read.
	began atomic.Int64
	start time.Time
	stop  context.CancelFunc
	done  chan struct{}
}

// watch watches conn until end is called, if it can be asked for a sign of life.
func watch(conn rpc.Connection) *watched {
	ctx, stop := context.WithCancel(context.Background())
	w := &watched{Connection: conn, start: time.Now().Add(-1), stop: stop, done: make(chan struct{})}
	go func() { // end waits for it
		defer close(w.done)
		if prober, ok := conn.(server.Prober); ok {
			w.run(ctx, prober)
		}
	}()
	return w
}

func (w *watched) end() {
	w.stop()
	<-w.done
}

func (w *watched) run(ctx context.Context, prober server.Prober) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Since(w.start)
		probe, cancel := context.WithTimeout(ctx, watchTimeout)
		err := prober.Probe(probe)
		silent := err != nil && probe.Err() != nil && ctx.Err() == nil
		cancel()
		// A Read that was called later, or none at all, may have missed it: then the
		// messages that came are not taken, and whoever does not take them is watched, too.
		if began := w.began.Load(); silent && began != 0 && began <= int64(asked) {
			_ = w.Close()
			return
		}
	}
}

// Read implements rpc.Connection.
func (w *watched) Read(ctx context.Context) ([]byte, error) {
	w.began.Store(int64(time.Since(w.start)))
	defer w.began.Store(0)
	return w.Connection.Read(ctx)
}

// CloseFault implements rpc.FaultCloser.
func (w *watched) CloseFault(code int, reason string) error {
	if fault, ok := w.Connection.(rpc.FaultCloser); ok {
		return fault.CloseFault(code, reason)
	}
	return w.Close()
}
