package shell

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

// A Shell is a Runs over a Recorder. It is safe for concurrent use.
type Shell struct {
	cfg      Config
	lifetime context.Context // ends when Close has ended all runs
	end      context.CancelFunc
	settler  settler
	hurry    chan struct{} // closed when Close waits for no room on the disk any more
	pages    atomic.Int64  // bytes of the pages that followers have read from logs and may keep

	mu        sync.Mutex
	live      map[string]*run
	lingering map[*run]struct{} // have ended, and descendants hold their pipes
	stdin     int               // bytes of all live runs
	closing   bool

	starts   sync.WaitGroup // Execs under way
	children sync.WaitGroup // lives of runs
	closed   chan struct{}
	err      error // of Close; set before closed is
}

var _ ListedRuns = (*Shell)(nil)

// New makes a Shell.
func New(cfg Config) (*Shell, error) {
	if cfg.Recorder == nil {
		return nil, errors.New("a shell needs a recorder")
	}
	s := &Shell{
		cfg:  cfg.withDefaults(),
		live: make(map[string]*run), lingering: make(map[*run]struct{}),
		hurry: make(chan struct{}), closed: make(chan struct{}),
	}
	s.settler = settler{settle: cfg.Settle, failed: func(err error) {
		s.cfg.Logger.Warn("what commands wrote was not taken up", "err", err)
	}}
	s.lifetime, s.end = context.WithCancel(context.Background())
	return s, nil
}

// store returns the Store of the runs' logs, to be read.
func (s *Shell) store() eventlog.Store { return s.cfg.Recorder.Store() }

// Exec implements Runs.
func (s *Shell) Exec(ctx context.Context, req Request) (string, Events, error) {
	if err := req.check(); err != nil {
		return "", nil, err
	}
	if err := ctx.Err(); err != nil {
		return "", nil, err
	}
	if err := s.cfg.Recorder.Recover(ctx); err != nil {
		return "", nil, fmt.Errorf("begin exec: %w", err)
	}
	if req.ID == "" {
		req.ID = newID()
	}
	timeout := DefaultTimeout
	if req.Timeout != nil {
		timeout = *req.Timeout
	}
	r, err := s.reserve(&req)
	if err != nil {
		return "", nil, err
	}
	defer s.starts.Done()
	f := r.follower // nobody else changes it before the run has begun
	r.begin()
	s.children.Go(r.live) // ends with the child; waited for by Close
	child, err := s.spawn(&req)
	if r.startErr = err; err == nil {
		r.supervise(child, &req, timeout)
	} else {
		s.fed(len(req.Stdin))
	}
	close(r.started)
	<-r.begun
	if r.beginErr != nil {
		s.remove(r)
		r.drop()
		return "", nil, fmt.Errorf("begin exec: %w", r.beginErr)
	}
	f.key = r.key
	return req.ID, f, nil
}

// reserve takes the id of a request. The caller calls starts.Done.
func (s *Shell) reserve(req *Request) (*run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return nil, protocol.NamedErrorf(CodeShutdown, "the server is shutting down")
	case s.live[req.ID] != nil:
		return nil, protocol.NamedErrorf(CodeBusy, "exec %s is already running", req.ID)
	case len(s.live) >= s.cfg.MaxRuns:
		return nil, protocol.NamedErrorf(CodeBusy, "%d commands are running, as many as are possible", len(s.live))
	case s.stdin+len(req.Stdin) > maxStdinTotal:
		return nil, protocol.NamedErrorf(CodeBusy, "the commands that are running are still reading %d bytes of stdin, at most %d are possible", s.stdin, maxStdinTotal)
	}
	r := newRun(s, req)
	s.live[req.ID] = r
	s.stdin += len(req.Stdin)
	s.starts.Add(1)
	return r, nil
}

// fed is called when the stdin of a run has been written, or never will be.
func (s *Shell) fed(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stdin -= size
}

// remove forgets a live run, whose id is free from then on.
func (s *Shell) remove(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[r.id] == r {
		delete(s.live, r.id)
	}
}

// find returns the live run with that id, nil if there is none.
func (s *Shell) find(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

func (s *Shell) newFollower(id string) *follower {
	return &follower{shell: s, id: id, closed: make(chan struct{})}
}

// GetExec implements Runs.
func (s *Shell) GetExec(ctx context.Context, id string, after After) (Events, error) {
	return s.follow(ctx, id, after, false)
}

// Follow implements ListedRuns.
func (s *Shell) Follow(ctx context.Context, id string, after After) (Events, error) {
	return s.follow(ctx, id, after, true)
}

func (s *Shell) follow(ctx context.Context, id string, after After, shared bool) (Events, error) {
	f := s.newFollower(id)
	f.shared = shared
	if r := s.find(id); r != nil {
		select {
		case <-r.begun:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		f.key = r.key
		switch err := r.follow(f, after); {
		case err == nil:
			return f, nil
		case !errors.Is(err, errEnded):
			return nil, err
		}
	}
	rec, err := s.lookUp(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case rec == nil || !shared && s.isOld(rec):
		return nil, noRecord(id)
	case rec.Evicted && !shared:
		return nil, truncated(id)
	case !rec.Ended && s.find(id) != nil: // it has begun meanwhile
		return s.follow(ctx, id, after, shared)
	case !rec.Ended && !s.cfg.Recorder.Recovered():
		return s.followLeft(ctx, f, rec.Log, after)
	case !rec.Ended: // its log could not be written
		return nil, fmt.Errorf("the log of exec %s could not be written to its end", id)
	}
	f.key, f.next, f.last = rec.Log, after.Seq+1, rec.Last
	if after.Tail || after.Seq > f.last {
		f.next = f.last + 1
	}
	return f, nil
}

// followLeft follows a run that the last server has left, which there may be no room to end: what is in
// its log, and then the exit that it will have.
func (s *Shell) followLeft(ctx context.Context, f *follower, run int64, after After) (Events, error) {
	err := s.cfg.Recorder.Recover(ctx)
	switch {
	case err == nil:
		return s.follow(ctx, f.id, after, f.shared)
	case !errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("end exec %s, which the last server has left: %w", f.id, err)
	}
	f.key, f.next, f.last, f.left = run, after.Seq+1, math.MaxUint64, true
	seen := after.Tail
	if !seen && after.Seq > 0 {
		list, err := s.store().Read(ctx, run, after.Seq-1, 1, 1)
		if err != nil {
			return nil, fmt.Errorf("read the log of exec %s: %w", f.id, err)
		}
		seen = len(list) == 0 // it was the exit
	}
	if seen {
		f.last = after.Seq
	}
	return f, nil
}

// isOld reports whether a run has ended too long ago for GetExec.
func (s *Shell) isOld(rec *eventlog.Record) bool { return rec.Ended && time.Since(rec.At) > s.cfg.TTL }

// KillExec implements Runs.
func (s *Shell) KillExec(ctx context.Context, id, signal string) error {
	r := s.find(id)
	if r == nil {
		switch rec, err := s.lookUp(ctx, id); {
		case err != nil:
			return err
		case rec == nil || s.isOld(rec):
			return noRecord(id)
		}
	}
	sig, ok := signals[signal]
	if !ok {
		return protocol.NamedErrorf(CodeInvalid, "unknown signal %.64q, expected SIGTERM, SIGKILL, SIGINT or SIGHUP", signal)
	}
	if r == nil {
		return nil
	}
	select {
	case <-r.started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.signal(sig)
	return nil
}

// DisposeExec implements Runs.
func (s *Shell) DisposeExec(ctx context.Context, id string) error {
	if r := s.find(id); r != nil {
		s.remove(r)
		r.drop()
		forgotten := make(chan error, 1)
		s.children.Go(func() { // ends when the log is written no more; waited for by Close
			<-r.kept
			ctx := context.WithoutCancel(ctx)
			if r.beginErr == nil {
				forgotten <- s.forget(ctx, id, r.key, r.disposed()) // the id may be another run's by now
			} else {
				forgotten <- s.forgetEnded(ctx, id)
			}
		})
		select {
		case err := <-forgotten:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.forgetEnded(ctx, id)
}

// forgetEnded forgets the run that has the id and is not live, if there is one.
func (s *Shell) forgetEnded(ctx context.Context, id string) error {
	rec, err := s.lookUp(ctx, id)
	switch {
	case err != nil || rec == nil:
		return err
	case !rec.Ended && s.find(id) != nil:
		return nil // that run has begun meanwhile, and replaced the one before it
	}
	return s.forget(ctx, id, rec.Log, nil)
}

// lookUp returns what is recorded of the run that has the id, nil if there is none.
func (s *Shell) lookUp(ctx context.Context, id string) (*eventlog.Record, error) {
	list, err := s.store().List(ctx, eventlog.Query{Origin: eventlog.OriginRun, ID: &id, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("find exec %s: %w", id, err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return &list[0], nil
}

// isHurried reports whether Close waits for no room on the disk any more.
func (s *Shell) isHurried() bool {
	select {
	case <-s.hurry:
		return true
	default:
		return false
	}
}

// forget forgets a run. About is what is known of one that was live.
func (s *Shell) forget(ctx context.Context, id string, run int64, about *eventlog.Record) error {
	if err := s.cfg.Recorder.Forget(ctx, run, about); err != nil {
		return fmt.Errorf("forget exec %s: %w", id, err)
	}
	return nil
}

// Running counts the runs that are live.
func (s *Shell) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// linger notes that descendants of a run that has ended hold its pipes; false if there
// are too many of those.
func (s *Shell) linger(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.lingering) >= maxLingering {
		return false
	}
	s.lingering[r] = struct{}{}
	return true
}

func (s *Shell) lingered(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lingering, r)
}

// Close ends what runs: with SIGTERM, and with SIGKILL what is not gone after Grace. It
// waits until all ends are recorded. Exec is ESHUTDOWN from its beginning on. What runs
// have left behind is killed if it holds their pipes. The Recorder stays open.
func (s *Shell) Close() error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if first {
		s.err = s.shutDown()
		close(s.closed)
	}
	<-s.closed
	return s.err
}

func (s *Shell) shutDown() error {
	s.starts.Wait()
	s.mu.Lock()
	var live, rest []*run
	for _, r := range s.live {
		live = append(live, r)
	}
	for r := range s.lingering {
		rest = append(rest, r)
	}
	s.mu.Unlock()
	for _, r := range live {
		r.lift()
		r.signal(syscall.SIGTERM)
	}
	for _, r := range rest {
		r.end()
	}
	gone := make(chan struct{})
	go func() { // ends with the children; stuck ones are the system's
		defer close(gone)
		s.children.Wait()
	}()
	timer := time.NewTimer(s.cfg.Grace)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
		for _, r := range live {
			r.signal(syscall.SIGKILL)
		}
		close(s.hurry)
		for _, r := range live {
			r.mark()
		}
		timer.Reset(closeTime)
		select {
		case <-gone:
		case <-timer.C:
			s.end()
			return fmt.Errorf("close shell: %d commands do not end although they were killed", s.Running())
		}
	}
	s.end()
	if err := s.cfg.Spawner.Close(); err != nil {
		return fmt.Errorf("close spawner: %w", err)
	}
	return nil
}
