package process

import (
	"testing"
	"testing/synctest"
)

func TestIdle(t *testing.T) {
	s := NewService(nil, Config{})
	if !s.Idle() {
		t.Error("a new service is not idle")
	}
	e, _, err := s.reserve("p", [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Idle() {
		t.Error("idle with a start under way")
	}
	s.starts.Done()
	s.free(e)
	if !s.Idle() {
		t.Error("not idle after the start failed")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestIdleOnceAllHasEnded(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		if s.service.Idle() {
			s.Error("idle while a process runs")
		}
		s.child.end(WaitStatus{})
		s.want("1 exited 0", "2 closed")
		synctest.Wait()
		if !s.service.Idle() {
			s.Error("not idle although the only process has closed")
		}
	})
}
