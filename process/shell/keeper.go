package shell

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// begin has the run's log begun.
func (r *run) begin() {
	r.batch = &eventlog.Change{At: r.since, Info: r.info()}
	if !r.mark() {
		r.Wrote(r.batch, errors.New("the log of commands is closed"))
	}
}

func (r *run) info() *eventlog.Info {
	return &eventlog.Info{
		Origin: eventlog.OriginRun, ID: r.id, Client: r.client, Peer: r.peer, Argv: []string{program, "-c", r.about.Command}, Cwd: r.about.Cwd, Started: r.since,
	}
}

// mark has what is new recorded; false if nothing is recorded any more.
func (r *run) mark() bool { return r.shell.cfg.Recorder.Mark(r, true) }

// Take implements eventlog.Source.
func (r *run) Take() (eventlog.Change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		return eventlog.Change{}, false
	case r.isDropped() && r.isBegun(): // else Exec waits
		r.finish()
		return eventlog.Change{}, false
	case r.batch == nil && !r.next():
		return eventlog.Change{}, false
	}
	return *r.batch, true
}

// next puts together what is to be recorded: events, or that a log is cut; false if there is
// nothing. It is called with mu held.
func (r *run) next() bool {
	n := len(r.queue)
	due := r.due && !r.replaying()
	if n == 0 && !due {
		return false
	}
	r.taken = n
	r.batch = &eventlog.Change{Log: r.key, At: time.Now(), Events: r.queue[:n:n]}
	r.log.add(r.batch.Events)
	r.bound()
	if n > 0 && r.queue[n-1].Kind == eventlog.KindExited {
		r.batch.Ended = true
	}
	r.batch.Bytes, r.batch.Printed = r.log.bytes, r.log.printed
	return true
}

// record returns what is known of the run once it has ended. It is called with mu held.
func (r *run) record(at time.Time, exit *eventlog.Exit) *eventlog.Record {
	return &eventlog.Record{
		Log: r.key, Info: *r.info(), Evicted: r.evicted, Exit: exit, Ended: true, At: at, Last: r.last, Bytes: r.log.bytes, Printed: r.log.printed,
	}
}

// disposed returns what is known of a run that was dropped and is recorded no more, nil if
// its end is in the log.
func (r *run) disposed() *eventlog.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	exit := &eventlog.Exit{Code: -1}
	if r.command != nil {
		exit = &eventlog.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL"}
	}
	rec := r.record(time.Now(), exit)
	rec.Bytes, rec.Printed = 0, rec.Printed+int64(eventlog.Size(r.queue[r.taken:]))
	return rec
}

// bound cuts the log where it has become too long, unless the follower is still to read what
// goes. It is called with mu held.
func (r *run) bound() {
	if r.log.over() && !r.evicted {
		r.batch.Evicted, r.evicted = true, true
	}
	if !r.replaying() {
		r.batch.First = r.log.trim()
	}
	r.due = r.log.due()
}

// replaying is called with mu held: it reports whether the follower is still to read what
// was committed before it came. A lifted run's has lost its place.
func (r *run) replaying() bool {
	f := r.follower
	return f != nil && !r.lifted && f.next <= f.joined
}

// Wrote implements eventlog.Source. While there is no room for the log the run waits: its
// pipes are read no further than the window, and nothing that was read is lost.
func (r *run) Wrote(c *eventlog.Change, err error) (again bool) {
	switch {
	case !r.isBegun():
		r.key, r.beginErr = c.Log, err
		close(r.begun)
	case err == nil && r.batch.Ended:
		r.shell.remove(r) // before anybody is told
	case errors.Is(err, eventlog.ErrFull) && !r.isDropped() && !r.shell.isHurried():
		if !r.full {
			r.full = true
			r.logger().Warn("there is no room for the log, the command waits until there is", "err", err)
		}
		return true
	case err != nil && !r.isDropped():
		r.fail(fmt.Errorf("write the log of exec %s: %w", r.id, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = false
	if err != nil {
		r.finish()
		return false
	}
	if r.commit(); r.ended {
		r.shell.cfg.Recorder.Tell(*r.record(c.At, c.Events[len(c.Events)-1].Exit))
	}
	if r.ended || r.isDropped() {
		r.finish()
	} else if len(r.queue) > 0 {
		r.mark()
	}
	return false
}

func (r *run) isBegun() bool {
	select {
	case <-r.begun:
		return true
	default:
		return false
	}
}

// finish is called with mu held when nothing of the run is recorded any more.
func (r *run) finish() {
	if !r.over {
		r.over = true
		close(r.kept)
	}
}

// commit passes on what was committed. It is called with mu held.
func (r *run) commit() {
	events := r.batch.Events
	r.ended = r.batch.Ended
	r.queue, r.taken, r.batch = r.queue[r.taken:], 0, nil
	if n := len(events); n > 0 {
		r.committed = events[n-1].Seq
	}
	if r.follower == nil || r.lifted {
		r.took(eventlog.Size(events), len(events))
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

// fail ends a run whose log cannot be written: its output would be lost silently.
func (r *run) fail(err error) {
	r.logger().Error("log cannot be written, the command is killed", "err", err)
	r.shell.remove(r)
	r.mu.Lock()
	r.failure = err
	r.mu.Unlock()
	r.drop()
}
