package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/mirror"
)

// watchGrace is how long a look that is under way may go on when a signal ends a watch: what has just
// come over is known to have.
const watchGrace = 2 * time.Second

// look synchronises.
func (j *syncJob) look(ctx context.Context, m *mirror.Mirror) (mirror.Result, error) {
	if !j.watch {
		return m.Sync(ctx)
	}
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if j.watched.connected() {
			select {
			case <-late.Done():
			case <-time.After(watchGrace):
			}
		}
		cancel()
	})()
	return m.Sync(late)
}

// A syncWatch knows what a watch ends with when a signal ends it. It is safe for concurrent use.
type syncWatch struct {
	mu    sync.Mutex
	done  bool  // a look at both sides has come to its end, over this connection
	left  error // what that has left out
	apart bool  // there is no connection
	busy  bool  // a look is under way
	due   bool  // it has begun since something has changed here
	// before is what had moved, and was due, when the look began; now is what has since.
	before, now mirror.Progress
}

// away notes that the connection is lost.
func (w *syncWatch) away() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apart = true
}

// back notes that the connection of before goes on.
func (w *syncWatch) back() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apart = false
}

// anew notes that there is another connection, over which nothing was looked at.
func (w *syncWatch) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apart, w.done, w.busy = false, false, false
}

// connected reports whether there is a connection.
func (w *syncWatch) connected() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.apart
}

// looks notes that a look begins, and looked that it has come to its end.
func (w *syncWatch) looks(due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.due, w.before = true, due, w.now
}

func (w *syncWatch) looked(left error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, w.left, w.apart, w.busy = true, left, false, false
}

// moves notes what has moved and is due.
func (w *syncWatch) moves(p mirror.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = p
}

// ended is the error of a watch that a signal has ended: that of its last look, unless there may be
// something that has not come over.
func (w *syncWatch) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.apart:
		return &exitError{exitFailure, errors.New("ended without a connection to the server: what has changed since the last one has not come over")}
	case !w.done || w.busy && (w.due || w.now != w.before):
		return &exitError{exitFailure, errors.New("ended before all had come over; the next run goes on")}
	}
	return w.left
}

// progress notes and draws what has moved.
func (j *syncJob) progress(p mirror.Progress) {
	j.watched.moves(p)
	j.out.progress(p)
}

// options are those of a connection to the server. It reports at once that it is lost, and that it is
// back.
func (j *syncJob) options() client.Options {
	lost := false
	return client.Options{ClientName: "wsd", OnState: func(change client.StateChange) {
		switch {
		case change.State == client.StateConnecting && change.Err != nil:
			lost = true
			j.watched.away()
			if change.Attempt > 1 { // else it may be back at once
				j.out.trouble(fmt.Errorf("the connection to %s is lost", j.target.typed()))
			}
		case change.State == client.StateConnected && lost:
			lost = false
			j.watched.back()
			if j.out.troubled() {
				j.out.untold()
				j.out.note("wsd: connected again")
			}
		}
	}}
}
