package process

// Idle reports whether nothing of the session runs: when it is closed, no work is
// lost, though what has ended and is kept for readers may be.
func (s *Service) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if !e.over() {
			return false
		}
	}
	return true
}

// over reports whether nothing of the process is left, or it was never started.
func (e *entry) over() bool {
	select {
	case <-e.ready:
	default:
		return false
	}
	if e.err != nil {
		return true
	}
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}
