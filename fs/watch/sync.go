package watch

// Sync returns when what has happened in watched directories before the call can be taken.
// Where the system does not tell at once, that cannot be waited for, and Sync says so by
// false.
func (s *Sub) Sync() bool {
	h := s.hub
	h.mu.Lock()
	b := h.backend
	h.mu.Unlock()
	if b == nil {
		return false
	}
	return b.sync() // without the lock: it dispatches
}
