package handoff

import (
	"context"
	"sync"
)

// A Sender sends items one at a time, in order. It has no goroutine while there is nothing
// to send.
//
// It is idle, sends at once (in Start, on the goroutine of a caller, which does not wait),
// or sends in the background (in what Start returned, which may wait). While it is not idle,
// Start and Send leave what is due to the goroutine that sends.
type Sender[T any] struct {
	cfg  SenderConfig[T]
	busy bool
	idle chan struct{} // closed when busy ends; nil unless somebody waits for that
}

// SenderConfig says what a Sender sends, and how. Lock, Next and Send must be set.
type SenderConfig[T any] struct {
	// Lock guards the Sender and what Next reads. It is not held while an item is sent.
	Lock sync.Locker
	// Next takes the next item. It returns false when there is none. It is called with Lock.
	Next func() (item T, ok bool)
	// Try sends as much of an item as can be sent without waiting. finish, which is nil when
	// nothing is left, sends the rest and may wait. A nil Try leaves all items to Send.
	Try func(item T) (finish func())
	// Send sends an item and may wait.
	Send func(item T)
	// TryAll has Start try all items, of which the caller has made several. Without it Start
	// tries the first one; those that others have made meanwhile are sent in the background.
	TryAll bool
}

// NewSender returns an idle Sender.
func NewSender[T any](cfg SenderConfig[T]) *Sender[T] { return &Sender[T]{cfg: cfg} }

// Busy reports whether the Sender is not idle. It is called with Lock.
func (s *Sender[T]) Busy() bool { return s.busy }

// Start sends without waiting, if the Sender is idle. rest, unless it is nil, must be called
// without Lock: it sends what is left, and what has become due, and may wait. Start is called
// with Lock, and releases it while it sends.
func (s *Sender[T]) Start() (rest func()) {
	if item, finish, left := s.start(); left {
		return func() { s.finish(item, finish) }
	}
	return nil
}

// StartAsync is Start that has a goroutine send the rest. The goroutine ends when nothing is
// due.
func (s *Sender[T]) StartAsync() {
	if item, finish, left := s.start(); left {
		go s.finish(item, finish)
	}
}

// start returns the item that is left, and its finish, nil if Send has to send it.
func (s *Sender[T]) start() (item T, finish func(), left bool) {
	if s.busy {
		return item, nil, false
	}
	for first := true; ; first = false {
		if item, left = s.next(); !left || s.cfg.Try == nil || !first && !s.cfg.TryAll {
			return item, nil, left
		}
		s.cfg.Lock.Unlock()
		finish = s.cfg.Try(item)
		s.cfg.Lock.Lock()
		if finish != nil {
			return item, finish, true
		}
	}
}

// Send sends all that is due, if the Sender is idle, and may wait. It is called with Lock,
// and releases it while it sends.
func (s *Sender[T]) Send() {
	if !s.busy {
		s.drain()
	}
}

func (s *Sender[T]) finish(item T, finish func()) {
	if finish != nil {
		finish()
	} else {
		s.cfg.Send(item)
	}
	s.cfg.Lock.Lock()
	defer s.cfg.Lock.Unlock()
	s.drain()
}

func (s *Sender[T]) drain() {
	for item, ok := s.next(); ok; item, ok = s.next() {
		s.cfg.Lock.Unlock()
		s.cfg.Send(item)
		s.cfg.Lock.Lock()
	}
}

// next takes the next item, and says in busy whether there is one.
func (s *Sender[T]) next() (item T, ok bool) {
	item, ok = s.cfg.Next()
	s.busy = ok
	if !ok && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	return item, ok
}

// Wait returns nil once the Sender is idle, or the cause of ctx's end. It is called without
// Lock.
func (s *Sender[T]) Wait(ctx context.Context) error {
	s.cfg.Lock.Lock()
	if !s.busy {
		s.cfg.Lock.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.cfg.Lock.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A Queue holds the items that a Sender has yet to send. Its Pop is a Next. It belongs to the
// Sender's Lock; the zero value is empty.
type Queue[T any] struct {
	items []T
	first [1]T // holds the only item of a short queue
}

// Push adds an item behind the others.
func (q *Queue[T]) Push(item T) {
	if q.items == nil {
		q.items = q.first[:0]
	}
	q.items = append(q.items, item)
}

// Pop takes the first item. It returns false when there is none.
func (q *Queue[T]) Pop() (item T, ok bool) {
	if len(q.items) == 0 {
		return item, false
	}
	item = q.items[0]
	clear(q.items[:1])
	clear(q.first[:]) // where the item may have been before the queue grew
	q.items = q.items[1:]
	if len(q.items) == 0 {
		q.items = nil
	}
	return item, true
}

// Len counts the items.
func (q *Queue[T]) Len() int { return len(q.items) }

// Clear drops all items.
func (q *Queue[T]) Clear() {
	*q = Queue[T]{}
}
