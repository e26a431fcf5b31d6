package eventlog

import "sync"

// Changes tells any number of waiters that something has changed. The zero value is
// ready.
type Changes struct {
	mu sync.Mutex
	ch chan struct{} // non-nil while somebody waits
}

// Next returns a channel that the next Announce closes. Take it before looking at
// what may change.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	return c.ch
}

// Announce wakes all waiters.
func (c *Changes) Announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		close(c.ch)
		c.ch = nil
	}
}
