package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// holeDelay is how long an event may be missing while later ones are there before
	// it is asked for. Servers reorder within milliseconds; the real client would wait
	// for ever.
	holeDelay = 2 * time.Second
	// closedDelay is how long after the exit it is asked, once, whether the end was
	// lost: what holds the output open is most often a descendant.
	closedDelay = 7 * time.Second

	// What was missed is asked for in one piece, and after a connection that ended
	// before the answer was there in pieces, each time smaller ones: a way that ends
	// every connection after a while still carries all of it. In bytes.
	largestPage  = 256 << 10
	smallestPage = 8 << 10
)

// arm keeps the timer for what may be missing. p.mu is held.
func (p *Process) arm() {
	var delay time.Duration
	switch {
	case p.phase == ended || p.overrun || p.recovering != nil:
	case p.seq.hasHole():
		delay = holeDelay
	case p.exit != nil && !p.asked:
		delay = closedDelay
	}
	if delay == p.armed {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.armed, p.armedAt = delay, p.seq.last
	if delay != 0 {
		p.timer = time.AfterFunc(delay, p.expire)
	}
}

// expire runs on the timer's goroutine.
func (p *Process) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	delay := p.armed
	p.timer, p.armed = nil, 0
	switch {
	case p.phase == ended || p.overrun || delay == 0:
		return
	case delay == holeDelay && (!p.seq.hasHole() || p.seq.last != p.armedAt):
		p.arm() // that one was filled; there may be another
		return
	case delay == closedDelay:
		p.asked = true
	}
	if l := p.client.link(); l != nil {
		p.client.spawn(func() { p.recover(l, nil) })
	}
}

// reattach catches up with a new connection: one process/read tells what happened
// while there was none.
func (p *Process) reattach(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase == starting || p.attached == l || p.phase == ended && p.exitSet {
		return
	}
	p.attached = l
	p.client.spawn(func() { p.recover(l, nil) })
}

// recover reads what the server retains after the given number, or after the last
// that was published, and publishes it. When the connection ends meanwhile, the next
// one does it again.
func (p *Process) recover(l *link, after *uint64) {
	for again := true; again; {
		p.mu.Lock()
		if p.recovering == l || p.phase == ended && p.exitSet {
			p.mu.Unlock()
			return
		}
		p.recovering = l
		p.missed = false
		from := p.seq.last
		if after != nil {
			from, after = *after, nil
		}
		params := protocol.ReadParams{ProcessID: p.id, AfterSeq: &from, WaitMs: new(uint64)}
		if p.page != 0 {
			page := p.page
			params.MaxBytes = &page
			from = max(from, p.paged)
		}
		p.arm()
		p.mu.Unlock()

		var r protocol.ReadResult
		err := l.peer.Call(p.client.life, protocol.MethodProcessRead, &params, &r)
		again = p.recovered(l, &r, params.MaxBytes != nil, err)
	}
}

// recovered takes the answer to a process/read, of which paged tells whether it was one
// for a piece; true when another is needed.
func (p *Process) recovered(l *link, r *protocol.ReadResult, paged bool, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	latest := p.recovering == l
	if latest {
		p.recovering = nil
	}
	if err != nil {
		p.page = max(p.page/2, smallestPage)
		if !paged {
			p.page = largestPage
		}
		if !isClosed(err) && p.client.life.Err() == nil {
			p.lose(fmt.Errorf("recover output: %w", asUnknownProcess(callError(protocol.MethodProcessRead, err))))
		}
		return false
	}
	var more bool
	if paged {
		p.paged, more, err = p.seq.mergePage(r, p.publish)
	} else {
		err = p.seq.merge(r, p.publish)
	}
	if err != nil {
		p.lose(err)
		p.client.spawn(func() { _ = p.Terminate(p.client.life) }) // as nobody can follow it any more
		return false
	}
	if r.Exited && p.exit != nil {
		p.resolve(r.SandboxDenied)
	}
	if r.Failure != nil {
		p.lose(errors.New(*r.Failure))
	}
	if !more {
		p.page, p.paged = 0, 0
	}
	p.arm()
	return latest && (more || p.missed) && !p.overrun && p.phase != ended
}

// lose fails the process. p.mu is held.
func (p *Process) lose(err error) {
	p.end(err)
	if !p.exitSet {
		p.err, p.exitSet = err, true
		close(p.exited)
		p.client.forget(p)
	}
}

// asUnknownProcess adds ErrUnknownProcess to what process/read fails with when the
// process is gone: it has no other reason to fail.
func asUnknownProcess(err error) error {
	if failure, ok := errors.AsType[*Error](err); ok && failure.Code == protocol.CodeInvalidRequest {
		return fmt.Errorf("%w: %w", ErrUnknownProcess, err)
	}
	return err
}

// link is the connection of the moment, nil when there is none.
func (c *Client) link() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// forget drops a process that nothing more will be said of.
func (c *Client) forget(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes[p.id] == p {
		delete(c.processes, p.id)
	}
}
