package shell

import (
	"context"
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
	var logged int64
	count := 0
	for {
		events, purge, ok := r.next()
		if !ok {
			r.forget(ctx)
			return
		}
		b := Batch{At: time.Now(), Purge: purge}
		r.mu.Lock()
		evicted := r.evicted
		r.mu.Unlock()
		if !evicted {
			more := int64(size(events))
			if logged+more > r.shell.cfg.MaxLogBytes || count+len(events) > maxLogEvents {
				b.Evicted, logged = true, 0
				b.Purge = r.evict()
			} else {
				b.Events = events
				logged, count = logged+more, count+len(events)
				r.shell.logged(more)
			}
		}
		if n := len(events); n > 0 && events[n-1].Name == Exit {
			b.End = &End{Code: events[n-1].Code, Last: events[n-1].Seq, Bytes: logged}
		}
		if len(b.Events) > 0 || b.Evicted || b.Purge || b.End != nil {
			if err := r.shell.cfg.Store.Append(ctx, r.key, &b); err != nil {
				r.fail(fmt.Errorf("write the log of exec %s: %w", r.id, err))
				return
			}
		}
		if b.End != nil {
			r.shell.remove(r)
		}
		r.commit(events, &b)
		if b.End != nil {
			return
		}
	}
}

// next waits for work: events to commit, or a log to purge. It returns false when the run
// was dropped.
func (r *run) next() (events []Event, purge, ok bool) {
	for {
		r.mu.Lock()
		events, r.queue = r.queue, nil
		purge = r.evicted && !r.purged && !r.replaying()
		r.mu.Unlock()
		if r.isDropped() {
			return nil, false, false
		}
		if len(events) > 0 || purge {
			return events, purge, true
		}
		<-r.wake
	}
}

// evict notes that the log is incomplete from now on, and reports whether nobody needs
// what is there.
func (r *run) evict() (purge bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evicted = true
	return !r.replaying()
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
	r.purged = r.purged || b.Purge
	r.ended = b.End != nil
	if r.follower == nil || r.lifted {
		r.took(size(events), len(events))
	} else {
		r.tail = append(r.tail, events...)
	}
	if r.follower != nil {
		notify(r.follower.news)
	}
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
