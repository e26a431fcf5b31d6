package process

// Idle reports whether the session holds no process, not even one that has ended and
// is kept: nothing is lost when it is closed.
func (s *Service) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries) == 0
}
