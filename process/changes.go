package process

import "sync"

// changes tells any number of waiters that something has changed. The zero value is
// ready.
type changes struct {
	mu sync.Mutex
	ch chan struct{} // non-nil while somebody waits
}

// next returns a channel that the next announce closes. Take it before looking at
// what may change.
func (c *changes) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	return c.ch
}

func (c *changes) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		close(c.ch)
		c.ch = nil
	}
}
