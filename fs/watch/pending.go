package watch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Kind is what happened to a path.
type Kind int

const (
	// Created: the path appeared; it may have replaced another file.
	Created Kind = iota
	// Modified: content or attributes changed.
	Modified
	// Removed: the path disappeared.
	Removed
)

func kindOf(op Op) Kind {
	switch op {
	case Create:
		return Created
	case Remove, gone:
		return Removed
	case Modify:
	}
	return Modified
}

// Change is what happened to a path.
type Change struct {
	Path string
	Kind Kind
}

// Batch is what happened within a short time. Overflow means that changes were lost.
type Batch struct {
	Changes  []Change
	Overflow bool
}

// Window is the time within which changes of one path are told once.
const Window = 50 * time.Millisecond

// ErrClosed is returned by Next after Close.
var ErrClosed = errors.New("watch is closed")

// pending are changes that wait to be taken.
type pending struct {
	limit int
	wake  chan struct{}

	mu       sync.Mutex
	order    []string // of the paths in kinds, oldest first
	kinds    map[string]Kind
	since    time.Time // of the oldest
	overflow bool
	closed   bool
}

// add notes a change. A path that is created and then modified is still new to whoever
// is told; else the last change counts.
func (p *pending) add(path string, kind Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.kinds[path]
	switch {
	case known && old == Created && kind == Modified:
		return
	case known:
		p.kinds[path] = kind
		return
	case len(p.order) >= p.limit:
		p.drop()
	default:
		if len(p.order) == 0 {
			p.since = time.Now()
		}
		p.order = append(p.order, path)
		p.kinds[path] = kind
	}
	p.signal()
}

// lose notes that changes were lost.
func (p *pending) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
	p.signal()
}

// drop gives up what waits: who has to look at everything again needs no list.
func (p *pending) drop() {
	p.overflow = true
	p.order = nil
	clear(p.kinds)
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.signal()
}

// take returns what is ready, or how long to wait for it; 0 is until the next signal.
func (p *pending) take(limit int, now time.Time) (b Batch, wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		p.signal() // for the next caller
		return b, 0, ErrClosed
	case p.overflow:
	case len(p.order) == 0:
		return b, 0, nil
	default:
		if wait := Window - now.Sub(p.since); wait > 0 {
			return b, wait, nil
		}
	}
	n := min(limit, len(p.order))
	b = Batch{Changes: make([]Change, 0, n), Overflow: p.overflow}
	for _, path := range p.order[:n] {
		b.Changes = append(b.Changes, Change{path, p.kinds[path]})
		delete(p.kinds, path)
	}
	p.order, p.overflow = p.order[n:], false
	if len(p.order) == 0 {
		p.order = nil
	}
	return b, 0, nil
}

func (p *pending) next(ctx context.Context, limit int) (Batch, error) {
	for {
		b, wait, err := p.take(limit, time.Now())
		if err != nil || b.Overflow || len(b.Changes) > 0 {
			return b, err
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-timer:
		case <-p.wake:
		case <-ctx.Done():
			return Batch{}, context.Cause(ctx)
		}
	}
}
