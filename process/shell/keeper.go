package shell

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// begin begins the run's log, and is false if it could not.
func (r *run) begin() bool {
	r.key, r.beginErr = r.shell.cfg.Store.Begin(context.Background(), r.id, r.about, r.since)
	close(r.begun)
	if r.beginErr != nil {
		close(r.kept)
		return false
	}
	return true
}

// unkept leaves the run without a keeper until there is work for one.
func (r *run) unkept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keeping = false
	if r.isDropped() {
		r.work()
	}
}

// work is called with mu held when there is work for the keeper. A command that prints
// nothing needs none before its exit: to wake one for that costs more than to write it.
func (r *run) work() {
	if r.keeping {
		notify(r.wake)
		return
	}
	r.keeping = true
	r.shell.children.Go(r.keep) // ends with the run; waited for by Close
}

// exit adds the last event and writes it, if nobody keeps the log.
func (r *run) exit(code int) {
	r.mu.Lock()
	r.number(Event{Name: Exit, Code: code})
	kept := r.keeping
	if kept {
		notify(r.wake)
	}
	r.keeping = true
	r.mu.Unlock()
	if !kept {
		r.keep()
	}
}

// keep is the run's keeper: the one that writes its log. It returns when the run has its
// end there, was forgotten, or cannot be written.
func (r *run) keep() {
	defer close(r.kept)
	ctx := context.Background() // a run ends when it ends
	log := extent{most: r.shell.cfg.MaxLogBytes}
	for {
		events, ok := r.next()
		if !ok {
			r.forget(ctx)
			return
		}
		log.add(events)
		b := Batch{At: time.Now(), Events: events}
		r.bound(&log, &b)
		if n := len(events); n > 0 && events[n-1].Name == Exit {
			b.End = &End{Code: events[n-1].Code, Last: events[n-1].Seq, Bytes: log.bytes}
		}
		switch err := r.append(ctx, &b); {
		case errors.Is(err, errDropped):
			r.forget(ctx)
			return
		case err != nil:
			r.fail(fmt.Errorf("write the log of exec %s: %w", r.id, err))
			return
		}
		r.shell.logged(int64(size(events)))
		if b.End != nil {
			r.shell.remove(r)
		}
		r.commit(events, &b)
		if b.End != nil {
			return
		}
	}
}

var errDropped = errors.New("the run was disposed of")

// append appends to the log. While there is no room for it the run waits: its pipes are
// read no further than the window, and nothing that was read is lost.
func (r *run) append(ctx context.Context, b *Batch) error {
	for delay := minFullDelay; ; delay = min(2*delay, maxFullDelay) {
		err := r.shell.cfg.Store.Append(ctx, r.key, b)
		if !errors.Is(err, ErrFull) {
			return err
		}
		if delay == minFullDelay {
			r.logger().Warn("there is no room for the log, the command waits until there is", "err", err)
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
			continue
		case <-r.dropped:
			err = errDropped
		case <-r.shell.hurry:
		}
		timer.Stop()
		return err
	}
}

// next waits for work: events to commit, or a log to cut. It returns false when the run was
// dropped.
func (r *run) next() (events []Event, ok bool) {
	for {
		r.mu.Lock()
		events, r.queue = r.queue, nil
		due := r.due && !r.replaying()
		r.mu.Unlock()
		if r.isDropped() {
			return nil, false
		}
		if len(events) > 0 || due {
			return events, true
		}
		<-r.wake
	}
}

// bound has b cut the log where it has become too long, unless the follower is still to
// read what goes.
func (r *run) bound(log *extent, b *Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if log.over() && !r.evicted {
		b.Evicted, r.evicted = true, true
	}
	if !r.replaying() {
		b.First = log.trim()
	}
	r.due = log.due()
}

// replaying is called with mu held: it reports whether the follower is still to read what
// was committed before it came. A lifted run's has lost its place.
func (r *run) replaying() bool {
	f := r.follower
	return f != nil && !r.lifted && f.next <= f.joined
}

// commit passes on what was committed.
func (r *run) commit(events []Event, b *Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(events); n > 0 {
		r.committed = events[n-1].Seq
	}
	r.ended = b.End != nil
	if r.follower == nil || r.lifted {
		r.took(size(events), len(events))
	} else {
		r.tail = append(r.tail, events...)
	}
	r.notifyFollowers()
}

// notifyFollowers wakes the followers that wait. It is called with mu held.
func (r *run) notifyFollowers() {
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// awaitNews returns a channel that the next notifyFollowers closes. It is called with mu
// held.
func (r *run) awaitNews() <-chan struct{} {
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return r.news
}

// forget removes what was recorded of a run that was dropped.
func (r *run) forget(ctx context.Context) {
	r.shell.remove(r)
	if err := r.shell.cfg.Store.Forget(ctx, r.key); err != nil {
		r.logger().Error("a disposed run was not forgotten; it ends when the server starts again", "err", err)
	}
}

// fail ends a run whose log cannot be written: its output would be lost silently.
func (r *run) fail(err error) {
	r.logger().Error("log cannot be written, the command is killed", "err", err)
	r.shell.remove(r)
	r.mu.Lock()
	r.failure = err
	r.mu.Unlock()
	r.drop()
}
