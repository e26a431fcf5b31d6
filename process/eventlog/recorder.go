package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// DefaultKeepFor is how long a log that has ended is kept.
	DefaultKeepFor = 30 * 24 * time.Hour
	// DefaultKeepBytes is how much output of all logs that have ended is kept, and
	// maxKeptLogs is how many of them. The oldest go first.
	DefaultKeepBytes = 1 << 30
	maxKeptLogs      = 100_000
	// sweepTime is how often logs are looked for that have been kept for long enough. A
	// sweep comes early when one of sweepParts of KeepBytes has been written.
	sweepTime  = 30 * time.Second
	sweepParts = 4
	// writeDelay is how long what need not be written now waits for other changes, unless
	// Config.Later says otherwise.
	writeDelay = 5 * time.Millisecond
	// While there is no room for a change it is tried again, with delays from the first to
	// the second of these.
	minFullDelay = 50 * time.Millisecond
	maxFullDelay = time.Second
	// maxRetried is how many logs wait for room at most that hold nothing up: those of
	// processes that have ended, too. The others of them are written no more.
	maxRetried = 1000
	// writtenBytes is how much output is written at once, besides that of the last log: while
	// it is, commands go on, and what they print takes other memory.
	writtenBytes = 1 << 20
)

// Config says what a Recorder writes to. Only Store must be set.
type Config struct {
	Store     Store
	KeepFor   time.Duration // logs that have ended; 0 for DefaultKeepFor
	KeepBytes int64         // of output of all logs that have ended; 0 for DefaultKeepBytes
	// Later is how long what a Log has may wait to be written, exits too; 0 for a few
	// milliseconds, and exits that are written before a reader sees them. With Later the
	// Store is not used before there is something to write or a caller of Recover, other
	// servers may write to it.
	Later time.Duration
	// Ended, if set, is called with each log that has ended, once that is written or cannot
	// be. A log of which nothing was written has the number 0. Calls may overlap. It must
	// not block.
	Ended func(*Record)
	// NoHistory forgets runs that are replaced or disposed of; without it they are hidden.
	NoHistory bool
	// NoArgs keeps of each Argv the first only.
	NoArgs bool
	Logger *slog.Logger // nil discards
}

// A Source has changes of one log for a Recorder, which calls Take and Wrote in turn.
type Source interface {
	// Take returns what is to be written, false for nothing.
	Take() (Change, bool)
	// Wrote reports what became of the Change that Take has returned. With an error nothing
	// of it was written; if it returns true then, Take is called again after a moment.
	Wrote(c *Change, err error) (again bool)
}

// A Recorder numbers the logs of a server, writes them to a store, ends those that an
// earlier server has left, and forgets the oldest.
type Recorder struct {
	cfg Config
	// recovered: the logs that were live when the Store was used last have been ended.
	// recovering is held by the caller that does so.
	recovered  atomic.Bool
	recovering chan struct{}

	mu     sync.Mutex
	dirty  []Source // in the order in which they were marked first: numbers are given in it
	marked map[Source]struct{}
	closed bool

	// Of the goroutine that writes.
	full    []Source // are tried again later
	unswept int64    // bytes of output that were written since the last sweep
	failure string   // of the last transaction

	changes Changes
	version atomic.Uint64 // counts beginnings and ends that were written

	now, later, sweepNow chan struct{}      // hold a token when there is something to do
	flushes              chan chan struct{} // of callers of Flush: to be closed
	lifetime             context.Context    // ends with Close
	end                  context.CancelFunc
	wg                   sync.WaitGroup
}

// Open makes a Recorder, and ends the logs that the last server left open, if there is
// room for that.
func Open(ctx context.Context, cfg Config) (*Recorder, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.KeepFor <= 0 {
		cfg.KeepFor = DefaultKeepFor
	}
	if cfg.KeepBytes <= 0 {
		cfg.KeepBytes = DefaultKeepBytes
	}
	r := &Recorder{
		cfg: cfg, recovering: make(chan struct{}, 1), marked: make(map[Source]struct{}),
		now: make(chan struct{}, 1), later: make(chan struct{}, 1), sweepNow: make(chan struct{}, 1),
		flushes: make(chan chan struct{}),
	}
	r.lifetime, r.end = context.WithCancel(context.Background())
	if cfg.Later == 0 {
		if err := r.start(ctx); err != nil {
			r.end()
			return nil, fmt.Errorf("recover the log of commands: %w", err)
		}
	}
	r.wg.Go(r.write) // these end with lifetime; waited for by Close
	r.wg.Go(r.sweepLoop)
	return r, nil
}

// start ends the logs that the last server left open, and forgets the oldest.
func (r *Recorder) start(ctx context.Context) error {
	err := r.Recover(ctx)
	if err == nil || errors.Is(err, syscall.ENOSPC) {
		err = errors.Join(err, r.sweep(ctx))
	}
	if errors.Is(err, syscall.ENOSPC) {
		r.cfg.Logger.WarnContext(ctx, "there is no room to end commands that the last server has left; it is tried again until there is", "err", err)
		return nil
	}
	return err
}

// Close writes what is to be written. Nothing is written from then on.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	r.wg.Wait()
	return nil
}

// Store returns the store, to be read.
func (r *Recorder) Store() Store { return r.cfg.Store }

// Oldest is the end before which a log is about to be forgotten.
func (r *Recorder) Oldest() time.Time { return time.Now().Add(-r.cfg.KeepFor) }

// Changed returns a channel that is closed when something has been written since, and the
// number of beginnings and ends that were written.
func (r *Recorder) Changed() (<-chan struct{}, uint64) { return r.changes.Next(), r.version.Load() }

// shown returns what is kept of a command line.
func (r *Recorder) shown(argv []string) []string {
	if r.cfg.NoArgs && len(argv) > 1 {
		return argv[:1]
	}
	return argv
}

// Recovered reports whether the logs that an earlier server has left have their ends.
func (r *Recorder) Recovered() bool { return r.recovered.Load() }

// Shared reports whether other servers may write to the Store: what they write is not
// announced by Changed.
func (r *Recorder) Shared() bool { return r.cfg.Later > 0 }

// Recover ends the logs that were live when the Store was used last, unless that is done.
func (r *Recorder) Recover(ctx context.Context) error { return r.recover(ctx, false) }

// recover is Recover. With again it ends those of other servers that have gone since.
func (r *Recorder) recover(ctx context.Context, again bool) error {
	if r.recovered.Load() && !again {
		return nil
	}
	select {
	case r.recovering <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.recovering }()
	if r.recovered.Load() && !again {
		return nil
	}
	ended, err := r.cfg.Store.Recover(ctx, time.Now())
	if err != nil {
		return err
	}
	r.recovered.Store(true)
	if len(ended) > 0 {
		r.cfg.Logger.InfoContext(ctx, "commands that the last server did not end have ended now", "commands", len(ended))
		r.version.Add(1)
		r.changes.Announce()
	}
	for _, log := range ended {
		r.lost(ctx, log)
	}
	return nil
}

// Mark notes that a Source has a change, to be written now or a few milliseconds later. It
// returns false when nothing is written any more.
func (r *Recorder) Mark(s Source, now bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.note(s)
	if now {
		notify(r.now)
	} else {
		notify(r.later)
	}
	return true
}

// Flush returns once what is marked by now is written, or cannot be: a reader of the Store finds
// it.
func (r *Recorder) Flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case r.flushes <- done:
	case <-r.lifetime.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Forget removes a log that nobody writes any more, or hides it, and removes its events.
// About is what is known of one that was live, else nil. One that is not there is no error.
func (r *Recorder) Forget(ctx context.Context, log int64, about *Record) error {
	c := Change{Log: log, Forget: true, Hide: !r.cfg.NoHistory, At: time.Now()}
	if about != nil {
		c.Printed, c.Events = about.Printed, []Event{{Kind: KindExited, Exit: about.Exit}}
	}
	if err := r.cfg.Store.Write(ctx, []Change{c}); err != nil {
		return err
	}
	if about != nil {
		r.version.Add(1)
		r.changes.Announce()
		r.Tell(*about)
	}
	return nil
}

// note adds a Source to those that have a change. It is called with mu held.
func (r *Recorder) note(s Source) {
	if _, ok := r.marked[s]; !ok {
		r.marked[s] = struct{}{}
		r.dirty = append(r.dirty, s)
	}
}

// notify leaves a token in a channel that holds one.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// write writes changes until Close.
func (r *Recorder) write() {
	pause := cmp.Or(r.cfg.Later, writeDelay)
	delay := time.NewTimer(pause)
	defer delay.Stop()
	full := time.NewTimer(maxFullDelay)
	full.Stop()
	wait := minFullDelay
	for {
		var flushed chan struct{}
		select {
		case <-r.now:
		case flushed = <-r.flushes:
		case <-full.C:
			r.retry()
		case <-r.later:
			delay.Reset(pause)
			select {
			case <-r.now:
			case flushed = <-r.flushes:
			case <-delay.C:
			case <-r.lifetime.Done():
			}
		case <-r.lifetime.Done():
			for r.marks() > 0 {
				r.writeSome()
			}
			return
		}
		again := r.writeSome()
		if flushed != nil {
			for n := r.marks(); n > 0; n-- { // each time one at least
				again = r.writeSome() || again
			}
			close(flushed)
		}
		if again {
			full.Reset(wait)
			wait = min(2*wait, maxFullDelay)
		} else {
			wait = minFullDelay
		}
	}
}

// take takes the changes of the sources that are marked now, in order, until they have
// writtenBytes of output. The other sources are next.
func (r *Recorder) take() (sources []Source, changes []Change) {
	size := 0
	for n := r.marks(); n > 0; n-- {
		if size >= writtenBytes {
			notify(r.now)
			break
		}
		s := r.unmark()
		c, ok := s.Take()
		if !ok {
			continue
		}
		if c.Info != nil {
			info := *c.Info
			info.Argv = r.shown(info.Argv)
			c.Info, c.Hide = &info, !r.cfg.NoHistory
		}
		size += Size(c.Events)
		sources, changes = append(sources, s), append(changes, c)
	}
	return sources, changes
}

// marks returns how many sources are marked.
func (r *Recorder) marks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dirty)
}

// unmark returns the source that was marked first, which is marked no more.
func (r *Recorder) unmark() Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.dirty[0]
	r.dirty[0], r.dirty = nil, r.dirty[1:]
	delete(r.marked, s)
	return s
}

// writeSome writes changes, all in one transaction if there is room for them, and reports
// whether some are to be tried again.
func (r *Recorder) writeSome() (again bool) {
	ctx := context.Background() // what was printed is written
	sources, changes := r.take()
	if len(changes) == 0 {
		return false
	}
	var unusable error // it may not be in use yet
	if r.Shared() {
		if unusable = r.Recover(ctx); errors.Is(unusable, syscall.ENOSPC) {
			unusable = nil
		}
	}
	err := unusable
	if err == nil {
		err = r.cfg.Store.Write(ctx, changes)
	}
	r.report(err)
	size := int64(0)
	for i, s := range sources {
		failed := err
		if err != nil && unusable == nil && len(changes) > 1 {
			failed = r.cfg.Store.Write(ctx, changes[i:i+1]) // one log does not fail for another
		}
		if c := &changes[i]; failed == nil {
			size += int64(Size(c.Events))
			if c.Info != nil || c.Ended {
				r.version.Add(1)
			}
		}
		if s.Wrote(&changes[i], failed) {
			again = true
			r.full = append(r.full, s)
		}
	}
	r.changes.Announce()
	if r.unswept += size; r.unswept > r.cfg.KeepBytes/sweepParts {
		r.unswept = 0
		notify(r.sweepNow)
	}
	return again
}

// report logs why something is not written, once for each reason.
func (r *Recorder) report(err error) {
	was := r.failure
	if r.failure = ""; err != nil {
		r.failure = err.Error()
	}
	switch {
	case r.failure == was:
	case err != nil:
		r.cfg.Logger.Error("what commands do is not recorded", "err", err)
	default:
		r.cfg.Logger.Info("what commands do is recorded again")
	}
}

// Tell passes on to Config.Ended that a log has ended. Sources call it once that is written,
// or cannot be.
func (r *Recorder) Tell(rec Record) {
	if r.cfg.Ended != nil {
		rec.Argv = r.shown(rec.Argv)
		r.cfg.Ended(&rec)
	}
}

// lost passes on that a log has ended which an earlier server has left.
func (r *Recorder) lost(ctx context.Context, log int64) {
	if r.cfg.Ended == nil {
		return
	}
	found, err := r.cfg.Store.List(ctx, Query{Log: &log, Hidden: true, Limit: 1})
	if err != nil {
		r.cfg.Logger.ErrorContext(ctx, "how a command has ended could not be passed on", "log", log, "err", err)
	}
	for i := range found {
		r.cfg.Ended(&found[i])
	}
}

// mayRetry reports whether another change that holds nothing up may wait for room. It is
// called by Wrote.
func (r *Recorder) mayRetry() bool { return len(r.full) < maxRetried }

// retry has the changes tried again for which there was no room.
func (r *Recorder) retry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.full {
		r.note(s)
	}
	r.full = nil
}

// sweepLoop forgets logs that have been kept for long enough, until Close. It ends those
// that the last server has left once there is room for that.
func (r *Recorder) sweepLoop() {
	ticker := time.NewTicker(sweepTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-r.sweepNow:
		case <-r.lifetime.Done():
			return
		}
		if r.Shared() && !r.Recovered() {
			continue // nothing was written
		}
		left := r.recover(r.lifetime, r.Shared())
		if errors.Is(left, syscall.ENOSPC) {
			left = nil // as was said
		}
		// Room for it may be what the logs have that are swept.
		if err := errors.Join(left, r.sweep(r.lifetime)); err != nil && !errors.Is(err, context.Canceled) {
			r.cfg.Logger.Error("commands that have ended long ago were not forgotten", "err", err)
		}
	}
}

func (r *Recorder) sweep(ctx context.Context) error {
	return r.cfg.Store.Sweep(ctx, Keep{Since: r.Oldest(), Logs: maxKeptLogs, Bytes: r.cfg.KeepBytes})
}
