package process

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/limit"
)

// killDelay is the time between the SIGTERM and the SIGKILL of a deadline.
const killDelay = 2 * time.Second

// supervisor owns one child until everything of it has been logged.
type supervisor struct {
	child     *Child
	log       Log
	group     *limit.Group // that the child is in; nil for one without limits
	tty       bool
	sandboxed bool
	timeout   time.Duration // 0 for none
	logger    *slog.Logger
	logged    func(*eventlog.Event) // called after each event; nil for none
	ended     func()                // called last, once everything is logged

	stdin   *stdin // nil when nothing can be written
	window  window
	changed eventlog.Changes // after every event, and after failure is set
	pumps   []*Pump

	mu         sync.Mutex
	exited     bool // the child is gone; its exit may not be logged yet
	timedOut   bool
	terminated bool
	failure    string

	dropped chan struct{} // closed by terminate: no more output is wanted
	cut     chan struct{} // closed once the streams are to end when the child has
	broken  chan struct{} // closed by fail
	done    chan struct{} // closed when nothing of the child is left
}

// start begins to supervise s.child.
func (s *supervisor) start() {
	for _, ch := range []*chan struct{}{&s.dropped, &s.cut, &s.broken, &s.done} {
		*ch = make(chan struct{})
	}
	if s.child.Input != nil {
		s.stdin = newStdin(s.child.Input)
	}
	for _, out := range s.child.Outputs {
		s.pumps = append(s.pumps, NewPump(out,
			func() bool { return s.window.wait(s.dropped) },
			func(c Chunk) error {
				return s.append(eventlog.Event{Kind: eventlog.KindOutput, Stream: c.Stream, Data: c.Data})
			}, true))
	}
	go s.run() // ends with the child; waited for through done
}

func (s *supervisor) run() {
	defer close(s.done)
	var wg sync.WaitGroup
	for _, p := range s.pumps {
		wg.Go(p.Run)
	}
	if s.timeout > 0 {
		over := make(chan struct{})
		wg.Go(func() { s.deadline(over) })
		defer wg.Wait()
		defer close(over)
	}

	status := s.child.Process.Wait()
	s.mu.Lock()
	s.exited = true
	s.mu.Unlock()
	for _, p := range s.pumps {
		p.ProcessEnded()
	}
	for _, p := range s.pumps {
		<-p.Drained
	}
	_ = s.append(eventlog.Event{Kind: eventlog.KindExited, Exit: s.exit(status)}) // append has noted the failure
	for _, p := range s.pumps {
		select {
		case <-p.Done:
		case <-s.cut:
			p.Close()
			<-p.Done
		}
	}

	if s.stdin != nil {
		s.stdin.close()
	}
	for _, p := range s.pumps {
		p.Close()
	}
	if err := s.child.Process.Close(); err != nil {
		s.logger.Debug("child was not released cleanly", "err", err)
	}
	_ = s.append(eventlog.Event{Kind: eventlog.KindClosed})
	s.ended()
}

// append logs an event and tells of it.
func (s *supervisor) append(e eventlog.Event) error {
	if e.Kind == eventlog.KindOutput {
		// Counted first: the publisher may be done with the event before Append returns.
		s.window.add(len(e.Data))
	}
	seq, err := s.log.Append(e)
	if err != nil {
		s.fail(err)
	}
	s.changed.Announce()
	if err == nil && s.logged != nil {
		e.Seq = seq
		s.logged(&e)
	}
	return err
}

// fail ends a child whose log cannot be written: its output would be lost silently.
func (s *supervisor) fail(err error) {
	s.mu.Lock()
	first := s.failure == ""
	if first {
		s.failure = "write output log: " + err.Error()
	}
	s.mu.Unlock()
	if first {
		s.logger.Error("output log cannot be written, the process is killed", "err", err)
		close(s.broken)
		s.terminate()
	}
}

// exit says how the child ended, when all it printed has been logged.
func (s *supervisor) exit(status WaitStatus) *eventlog.Exit {
	s.mu.Lock()
	exit := &eventlog.Exit{Code: status.ExitCode(s.tty), TimedOut: s.timedOut}
	s.mu.Unlock()
	if status.Signal != 0 {
		exit.Signal = signalName(status.Signal)
	}
	exit.Limit = s.group.Cause(status.Code, status.Signal)
	if s.sandboxed && exit.Code != 0 {
		page, err := s.log.Read(nil, 0, -1)
		if err != nil {
			s.fail(err)
		}
		exit.SandboxDenied = sandboxDenied(exit.Code, page.Events)
		page.Release()
	}
	return exit
}

// terminate kills the group and drops what was not read, also what descendants that
// left the group may print. It returns whether the child was running and does not
// wait for its end.
func (s *supervisor) terminate() (running bool) {
	s.mu.Lock()
	running = !s.exited
	first := !s.terminated
	s.terminated = true
	s.mu.Unlock()
	if !first {
		return running
	}
	s.kill()
	if s.stdin != nil {
		s.stdin.terminate()
	}
	close(s.dropped)
	for _, p := range s.pumps {
		p.Close()
	}
	return running
}

func (s *supervisor) kill() {
	if err := s.child.Process.Signal(syscall.SIGKILL, true); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.logger.Error("process group could not be killed", "pid", s.child.PID, "err", err)
	}
}

// signal sends sig to the child or its group, unless the child has ended.
func (s *supervisor) signal(sig syscall.Signal, group bool) error {
	s.mu.Lock()
	exited := s.exited
	s.mu.Unlock()
	if exited {
		return nil
	}
	if err := s.child.Process.Signal(sig, group); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// deadline ends the group when the time is over: politely, then with SIGKILL. What
// it has printed until then is kept, and streams that descendants outside the group
// hold end with it.
func (s *supervisor) deadline(over <-chan struct{}) {
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case <-over:
		return
	case <-timer.C:
	}
	s.mu.Lock()
	s.timedOut = !s.exited
	s.mu.Unlock()
	if err := s.child.Process.Signal(syscall.SIGTERM, true); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.logger.Error("process group could not be ended", "pid", s.child.PID, "err", err)
	}
	timer.Reset(killDelay)
	select {
	case <-over:
		return
	case <-timer.C:
	}
	s.kill()
	close(s.cut)
}

// failed says why the log cannot be written, nil while it can.
func (s *supervisor) failed() *string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == "" {
		return nil
	}
	return &s.failure
}

// gone reports whether the child has ended, and whether nothing of it is left.
func (s *supervisor) gone() (exited, closed bool) {
	s.mu.Lock()
	exited = s.exited
	s.mu.Unlock()
	select {
	case <-s.done:
		closed = true
	default:
	}
	return exited, closed
}
