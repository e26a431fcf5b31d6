package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// run keeps the Client connected until its life ends or there is no way to.
func (c *Client) run() {
	var cause error
	resuming := false
	for {
		l, lost, err := c.reach(resuming, cause)
		if err != nil {
			c.finish(err)
			return
		}
		c.attach(l, resuming && !lost)
		<-l.done // the end of the Client's life closes it
		cause = l.err
		if cause == nil {
			cause = errors.New("closed by the other end")
		}
		c.detach(l)
		switch {
		case c.life.Err() != nil:
			c.finish(context.Cause(c.life))
			return
		case c.opts.Reconnect.Disabled || !c.transport.Resumes():
			c.finish(fmt.Errorf("%w: %w", ErrTransportClosed, cause))
			return
		}
		resuming = true
	}
}

// reach connects. When resuming it tries again until the policy gives up; cause is
// what ended the connection before. lost is true when the session is another one.
func (c *Client) reach(resuming bool, cause error) (_ *link, lost bool, _ error) {
	var grace time.Duration
	if limits := c.session.info.Limits; limits != nil { // only this goroutine writes it
		grace = time.Duration(limits.SessionGraceMs) * time.Millisecond
	}
	delays := newBackoff(c.opts.Reconnect, grace, time.Now(), c.rand)
	for attempt := 1; ; attempt++ {
		c.report(StateChange{State: StateConnecting, Attempt: attempt, Err: cause})
		l, lost, err := c.attempt()
		if err == nil {
			return l, lost, nil
		}
		if c.life.Err() != nil {
			return nil, false, context.Cause(c.life)
		}
		if !resuming {
			return nil, false, err
		}
		cause = err
		failure, ok := errors.AsType[*protocol.Error](err)
		attached := ok && failure.Code == protocol.CodeSessionAttached
		delay, more := delays.next(time.Now(), attached)
		if !more || isPermanent(err) || errors.Is(err, errNoRedial) {
			return nil, false, fmt.Errorf("%w, and connecting again failed: %w", ErrTransportClosed, err)
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-c.life.Done():
			timer.Stop()
			return nil, false, context.Cause(c.life)
		}
	}
}

// attempt dials and initializes once.
func (c *Client) attempt() (*link, bool, error) {
	ctx, cancel, tooLate := c.bounded(cmp.Or(c.patience, c.opts.ConnectTimeout))
	defer cancel()
	conn, err := c.transport.Connect(ctx)
	if err != nil {
		timeout, ok := errors.AsType[net.Error](err)
		switch {
		case errors.Is(err, tooLate): // and it says what was tried
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case ok && timeout.Timeout() && c.patience == 0: // a deadline that was set from ctx
			err = tooLate
		}
		return nil, false, fmt.Errorf("connect: %w", err)
	}
	l, err := newLink(c, conn)
	if err != nil {
		return nil, false, err
	}
	if c.patience != 0 {
		ctx, cancel, _ = c.bounded(c.opts.ConnectTimeout)
		defer cancel()
	}
	s, lost, err := l.initialize(ctx, c.opts.ClientName, c.session.id)
	if err != nil {
		l.close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, false, err
	}
	if lost {
		c.loseSession(c.session.id)
	}
	l.session = s
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	return l, lost, nil
}

// bounded returns the context of something that may take d, and its cause then.
func (c *Client) bounded(d time.Duration) (context.Context, context.CancelFunc, error) {
	tooLate := fmt.Errorf("no connection within %v: %w", d, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(c.life, d, tooLate)
	return ctx, cancel, tooLate
}

// attach lets calls through, and recovers what was missed while there was no
// connection.
func (c *Client) attach(l *link, resumed bool) {
	c.mu.Lock()
	c.current = l
	c.broadcast()
	processes := slices.Collect(maps.Values(c.processes))
	watches := slices.Collect(maps.Values(c.watches))
	c.mu.Unlock()
	c.report(StateChange{State: StateConnected, Resumed: resumed})
	if resumed {
		for _, p := range processes {
			p.reattach(l)
		}
	}
	for _, w := range watches {
		c.spawn(func() { w.renew(l) })
	}
}

// detach ends what belonged to the connection.
func (c *Client) detach(l *link) {
	c.mu.Lock()
	c.current = nil
	bodies := slices.Collect(maps.Values(c.bodies))
	c.mu.Unlock()
	for _, b := range bodies {
		if b.link == l {
			b.fail(fmt.Errorf("%w: %w", ErrTransportClosed, l.cause()))
		}
	}
}

func (l *link) cause() error {
	if l.err == nil {
		return errors.New("closed by the other end")
	}
	return l.err
}

// finish ends everything that waits for a connection.
func (c *Client) finish(cause error) {
	c.mu.Lock()
	c.err, c.current = cause, nil
	c.broadcast()
	watches := slices.Collect(maps.Values(c.watches))
	c.mu.Unlock()
	c.end(cause)
	c.failProcesses(cause)
	for _, w := range watches {
		w.fail(cause)
	}
	change := StateChange{State: StateClosed, Err: cause}
	if errors.Is(cause, ErrClosed) {
		change.Err = nil
	}
	c.report(change)
}

func (c *Client) failProcesses(cause error) {
	for _, p := range c.allProcesses() {
		p.fail(cause)
	}
}

// loseSession fails the processes of a session, but not those whose start was not sent in
// it.
func (c *Client) loseSession(id string) {
	for _, p := range c.allProcesses() {
		p.loseSession(id)
	}
}

func (c *Client) allProcesses() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.processes))
}

func (c *Client) report(change StateChange) {
	c.log.Debug("connection", "state", change.State.String(), "attempt", change.Attempt, "err", change.Err)
	if c.opts.OnState != nil {
		c.opts.OnState(change)
	}
}
