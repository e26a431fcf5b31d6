package process

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// Supervision says how a Supervisor looks after a child.
type Supervision struct {
	Child *Child
	// Room is called before each read of what the child prints. It waits until more may be
	// read; false says that no more is wanted.
	Room func() bool
	// Output takes a chunk. After its error the stream is read no more.
	Output func(Chunk) error
	// Late has Output take also what descendants print after the child has ended. Without it
	// that is read and lost: a descendant that prints is not to wait, nor to die of it.
	Late bool
	// OnExit is called once all that the child itself printed was taken, while descendants may
	// have its streams open still.
	OnExit func(WaitStatus)
	// Timeout is when the group gets SIGTERM, and KillDelay how much later SIGKILL; no Timeout is
	// none. With Late the streams that descendants outside the group hold end then, too.
	Timeout, KillDelay time.Duration
	Logger             *slog.Logger
}

// A Supervisor looks after one child until nothing of it is left. It is safe for concurrent use.
type Supervisor struct {
	Supervision
	pumps []*pump

	mu       sync.Mutex
	exited   bool
	timedOut bool

	unlimited chan struct{} // closed by Unlimit
	cut       chan struct{} // closed once the streams are to end when the child has
	over      chan struct{} // closed when nothing of the child is left
}

// NewSupervisor makes a Supervisor for Run, which must be called.
func NewSupervisor(how Supervision) *Supervisor {
	s := &Supervisor{Supervision: how, unlimited: make(chan struct{}), cut: make(chan struct{}), over: make(chan struct{})}
	for _, out := range how.Child.Outputs {
		s.pumps = append(s.pumps, newPump(out, how.Room, how.Output, how.Late))
	}
	return s
}

// Run returns when nothing of the child is left, nor of descendants that hold its streams.
func (s *Supervisor) Run() {
	var wg sync.WaitGroup
	for _, p := range s.pumps {
		wg.Go(p.run)
	}
	if s.Timeout > 0 {
		wg.Go(s.deadline)
	}
	status := s.Child.Process.Wait()
	s.mu.Lock()
	s.exited = true
	s.mu.Unlock()
	for _, p := range s.pumps {
		p.processEnded()
	}
	for _, p := range s.pumps {
		<-p.drained
	}
	s.OnExit(status)
	for _, p := range s.pumps {
		select {
		case <-p.done:
		case <-s.cut:
		}
		p.close()
	}
	close(s.over)
	wg.Wait()
	if err := s.Child.Process.Close(); err != nil {
		s.Logger.Debug("child was not released cleanly", "err", err)
	}
}

// deadline ends the group when the time is over: politely, then with SIGKILL, also what is left of
// it when the child itself has ended by then. Printed output is kept.
func (s *Supervisor) deadline() {
	timer := time.NewTimer(s.Timeout)
	defer timer.Stop()
	select {
	case <-s.unlimited:
		return
	case <-s.over:
		return
	case <-timer.C:
	}
	s.mu.Lock()
	s.timedOut = !s.exited
	s.mu.Unlock()
	s.Logger.Info("the command has taken too long and is ended", "timeout", s.Timeout)
	s.SignalGroup(syscall.SIGTERM)
	timer.Reset(s.KillDelay)
	select {
	case <-s.over:
		return
	case <-timer.C:
	}
	s.SignalGroup(syscall.SIGKILL)
	if s.Late {
		close(s.cut)
	}
}

// Unlimit takes the Timeout back, unless it is over. It is called once.
func (s *Supervisor) Unlimit() { close(s.unlimited) }

// Signal sends a signal to the group, or to the child alone, if anybody is there to get it.
func (s *Supervisor) Signal(sig syscall.Signal, group bool) error {
	if err := s.Child.Process.Signal(sig, group); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// SignalGroup is Signal to the group. It logs an error.
func (s *Supervisor) SignalGroup(sig syscall.Signal) {
	if err := s.Signal(sig, true); err != nil {
		s.Logger.Error("process group could not be signalled", "pid", s.Child.PID, "signal", int(sig), "err", err)
	}
}

// Kill kills the group, and reads no more of what it or its descendants print.
func (s *Supervisor) Kill() {
	s.SignalGroup(syscall.SIGKILL)
	s.CloseOutputs()
}

// CloseOutputs reads no more. A terminal stays open until the child has ended.
func (s *Supervisor) CloseOutputs() {
	for _, p := range s.pumps {
		p.close()
	}
}

// IsHeld reports whether anybody has the child's streams open still.
func (s *Supervisor) IsHeld() bool {
	for _, p := range s.pumps {
		if !isClosed(p.done) {
			return true
		}
	}
	return false
}

// HasExited reports whether the child has ended. Output may still have to be taken.
func (s *Supervisor) HasExited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exited
}

// HasTimedOut reports whether the child still ran at the end of the Timeout.
func (s *Supervisor) HasTimedOut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timedOut
}
