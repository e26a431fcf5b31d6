package process

import "testing"

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
