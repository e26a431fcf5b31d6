package simnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A Conn is one end of a Link.
type Conn struct {
	link          *Link
	in, out       *direction
	local, remote *net.TCPAddr

	readDeadline, writeDeadline deadline
}

// Link is the connection that c is an end of.
func (c *Conn) Link() *Link { return c.link }

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	for {
		expired, changed, n, err := c.try(&c.readDeadline, c.in, c.in.tryRead, b)
		if err != nil {
			return 0, c.opError("read", err)
		}
		if n > 0 || len(b) == 0 {
			return n, nil
		}
		select {
		case <-changed:
		case <-expired:
		}
	}
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	for written := 0; ; {
		expired, changed, n, err := c.try(&c.writeDeadline, c.out, c.out.tryWrite, b[written:])
		if err != nil {
			return written, c.opError("write", err)
		}
		if written += n; written == len(b) {
			return written, nil
		}
		select {
		case <-changed:
		case <-expired:
		}
	}
}

// try does step unless the deadline is over, and returns the channels to wait for when it
// did nothing. Both are looked up under the lock: setDeadline closes changed under it, once
// there is another deadline.
func (c *Conn) try(limit *deadline, d *direction, step func([]byte) (int, error), b []byte) (expired, changed chan struct{}, n int, err error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	expired, changed = limit.expired(), d.changed
	if closed(expired) {
		return expired, changed, 0, os.ErrDeadlineExceeded
	}
	n, err = step(b)
	return expired, changed, n, err
}

// Close implements net.Conn. The other end reads what was written, and then EOF.
func (c *Conn) Close() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.in.refused {
		return c.opError("close", net.ErrClosed)
	}
	c.in.refused = true
	c.in.held -= len(c.in.arrived)
	c.in.arrived = nil
	c.in.notify()
	c.out.end(true)
	c.out.notify()
	return nil
}

// CloseWrite ends this end's direction only.
func (c *Conn) CloseWrite() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.in.refused {
		return c.opError("close", net.ErrClosed)
	}
	c.out.end(false)
	c.out.notify()
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readDeadline, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeDeadline, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	c.link.mu.Lock()
	gone := c.in.refused
	c.link.mu.Unlock()
	if gone {
		return c.opError("set", net.ErrClosed)
	}
	d.set(t)
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.in.notify() // who waits for the old one waits for the new one
	c.out.notify()
	return nil
}

func (c *Conn) opError(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// A deadline is a channel that is closed at its time.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	done  chan struct{}
}

func (d *deadline) expired() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(chan struct{})
	}
	return d.done
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	done := make(chan struct{})
	d.done = done
	switch wait := time.Until(t); {
	case t.IsZero():
	case wait <= 0:
		close(done)
	default:
		d.timer = time.AfterFunc(wait, func() { close(done) })
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
