package harness

import (
	"context"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/relay"
)

// A socket is one that a stream has for a while. ctx ends when it is not to be read any
// more.
type socket struct {
	ctx     context.Context
	carrier relay.Carrier
	lost    chan error // takes why a reader could not read it
}

// turns say who reads the socket of the moment. That is whoever waits for a message: they
// find it there themselves, where another goroutine would have to wake them for it, and
// with them a sleeping processor. While nobody waits, acks and pings still have to be
// heard, so keep stands in: when nobody has read for takeOver, and at once for those who
// cannot, since they may have to stop waiting before a frame comes.
type turns struct {
	spare chan struct{} // wakes keep, whose turn it is
	left  chan struct{} // wakes keep, which waits for a reader to leave

	mu      sync.Mutex
	socket  *socket // nil between two
	holder  holder
	waiting bool   // for a message that keep reads, and would read themselves
	waits   uint64 // counts those who waited for one

	timer *time.Timer // runs while look will be called
	armed bool
	visit uint64 // counts the turns of readers
	seen  uint64 // visit at the last look
}

type holder uint8

const (
	nobody holder = iota
	reader        // who waits in Read
	keeper
)

func newTurns() *turns {
	t := &turns{spare: make(chan struct{}, 1), left: make(chan struct{}, 1)}
	t.timer = time.AfterFunc(time.Hour, t.look)
	t.timer.Stop()
	return t
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// open begins a socket, with keep's turn.
func (t *turns) open(s *socket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.socket = s
	t.give()
}

// close ends it. A reader has left when it returns; the socket's ctx must have ended.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.socket = nil
	for t.holder == reader {
		t.mu.Unlock()
		<-t.left
		t.mu.Lock()
	}
	t.holder = nobody
	t.timer.Stop()
	t.armed = false
}

// give makes it keep's turn. Called with the mutex.
func (t *turns) give() {
	t.holder = keeper
	signal(t.spare)
}

// mine says whether it is keep's turn.
func (t *turns) mine() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holder == keeper
}

// take makes it a reader's turn. It returns the socket to be read, nil if it cannot be.
func (t *turns) take() *socket {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder != nobody || t.socket == nil {
		return nil
	}
	t.holder = reader
	return t.socket
}

// leave ends a reader's turn. err is why the socket is lost.
func (t *turns) leave(s *socket, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder = nobody
	signal(t.left)
	if err != nil {
		t.socket = nil
		s.lost <- err
		return
	}
	t.visit++
	t.arm()
}

// follow is called by those who wait for what keep reads. Those that are willing get the
// turn when it has come.
func (t *turns) follow(willing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = willing
	t.waits++
	if t.holder == nobody && t.socket != nil {
		t.give()
	}
}

// followed is called by those who have waited.
func (t *turns) followed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = false
}

// awaited says which wait there is for what keep has read, 0 if there is none that ends
// with the waiting one reading on.
func (t *turns) awaited() (wait uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.waiting {
		return 0
	}
	return t.waits
}

// yield ends keep's turn for who waited with wait and has got a message, unless somebody
// waits for the next already.
func (t *turns) yield(wait uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting && t.waits != wait {
		return false
	}
	t.holder = nobody
	t.arm()
	return true
}

// arm has look called. The timer is not set for each message: that would cost more than
// the turn. Called with the mutex.
func (t *turns) arm() {
	if !t.armed && t.socket != nil {
		t.armed = true
		t.timer.Reset(takeOver)
	}
}

// look makes it keep's turn if it has been nobody's since the last look.
func (t *turns) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	switch {
	case t.holder != nobody || t.socket == nil:
	case t.visit == t.seen:
		t.give()
	default:
		t.seen = t.visit
		t.arm()
	}
}
