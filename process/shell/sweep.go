package shell

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// sweepLoop forgets runs that have been kept for long enough, until the Shell ends. It ends those that the
// last server has left once there is room for that.
func (s *Shell) sweepLoop() {
	ticker := time.NewTicker(sweepTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.sweepNow:
		case <-s.lifetime.Done():
			return
		}
		left := s.recover(s.lifetime)
		if errors.Is(left, syscall.ENOSPC) {
			left = nil // as was said
		}
		// Room for it may be what the runs have that are swept.
		if err := errors.Join(left, s.sweep()); err != nil && !errors.Is(err, context.Canceled) {
			s.cfg.Logger.Error("runs that have ended long ago were not forgotten", "err", err)
		}
	}
}

func (s *Shell) sweep() error {
	s.mu.Lock()
	s.unswept = 0
	s.mu.Unlock()
	return s.cfg.Store.Sweep(s.lifetime, Keep{Since: time.Now().Add(-s.cfg.KeepFor), Runs: maxKeptRuns, Bytes: s.cfg.KeepBytes})
}

// logged counts output that was logged, so that much of it is swept early.
func (s *Shell) logged(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unswept += size; s.unswept > s.cfg.KeepBytes/sweepParts {
		s.unswept = 0
		notify(s.sweepNow)
	}
}
