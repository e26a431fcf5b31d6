package mirror

import "sync"

// A meter adds up what has moved, and tells of it.
type meter struct {
	tell func(Progress)
	mu   sync.Mutex
	p    Progress
}

// count changes the numbers and tells of them, one at a time.
func (m *meter) count(fn func(*Progress)) {
	if m.tell == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fn(&m.p)
	m.tell(m.p)
}
