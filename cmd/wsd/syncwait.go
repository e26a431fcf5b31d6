package main

import (
	"context"
	"errors"
	"time"

	"github.com/wsd-dev/wsd/client/mirror"
)

// How --watch learns of changes.
const (
	// watchPause is how long changes of the directory gather before they are looked at.
	watchPause = 10 * time.Millisecond
	// watchLocal is between two looks at a directory of which the system does not tell,
	// watchRemote between two questions to a server that does not tell.
	watchLocal  = 250 * time.Millisecond
	watchRemote = 2 * time.Second
)

// A syncWaiter waits for something to synchronise, over one connection.
type syncWaiter struct {
	local *syncLocal
	sweep func() // makes the state smaller
	// check is asked before a look at the directory takes note of what has gone.
	check func(context.Context) error
	told  chan error // gets the answer of the question under way
	asked bool       // there is one
	mute  bool       // the server does not tell
	// pending: the last wait has returned because a look has found a change.
	pending bool
	// asks has the requests of other commands, and serve serves one.
	asks  <-chan *syncAsk
	serve func(context.Context, *syncAsk)
}

func newSyncWaiter(local *syncLocal, sweep func(), check func(context.Context) error, asks <-chan *syncAsk, serve func(context.Context, *syncAsk)) *syncWaiter {
	return &syncWaiter{local: local, sweep: sweep, check: check, told: make(chan error, 1), asks: asks, serve: serve}
}

// wait returns when a side may have something that the other one does not have, or it is time to try again
// what waits. ctx is the
// connection's: a question that is under way when wait returns ends with it.
func (w *syncWaiter) wait(ctx context.Context, m *mirror.Mirror) error {
	here, far := time.NewTicker(watchLocal), time.NewTicker(watchRemote)
	defer here.Stop()
	defer far.Stop()
	var again <-chan time.Time
	if at := m.TriesAgain(); !at.IsZero() {
		again = time.After(time.Until(at))
	}
	w.pending = false
	for {
		if w.local.due() {
			w.sweep()
		}
		if !w.asked && !w.mute {
			w.asked = true
			go func() { w.told <- m.AwaitRemote(ctx) }() // the channel has room for it
		}
		stirred := w.local.disk.Stirred()
		tick, question := here.C, far.C
		if stirred != nil {
			tick = nil
		}
		if !w.mute {
			question = nil
		}
		look := m.LocalPending
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		case <-stirred:
			select {
			case <-ctx.Done():
			case <-time.After(watchPause):
			}
		case <-question:
			look = m.RemotePending
		case err := <-w.told:
			w.asked = false
			if errors.Is(err, errors.ErrUnsupported) {
				w.mute = true
				continue
			}
			if err != nil {
				return err
			}
			return w.check(ctx)
		case <-again:
			return w.check(ctx)
		case ask := <-w.asks:
			w.serve(ctx, ask)
			w.pending = ask.Do != doorConflicts
			return w.check(ctx)
		}
		if err := w.check(ctx); err != nil {
			return err
		}
		var err error
		if w.pending, err = look(ctx); w.pending || err != nil {
			return err
		}
	}
}
