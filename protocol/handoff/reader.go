package handoff

import (
	"context"
	"sync"
	"time"
)

// A Reader reads the sockets of one stream, one socket after the other. A caller of Read that
// waits for a message reads the socket itself: another goroutine would have to wake it, and
// with it a sleeping processor. While nobody waits, acks and pings still have to be heard, so
// the goroutine of Serve, the keeper, stands in: when nobody has read for TakeOver, and at
// once for a caller whose context can end, since that may have to stop before a frame comes.
type Reader struct {
	cfg   ReaderConfig
	spare chan struct{} // wakes the keeper, who holds the socket
	left  chan struct{} // wakes Serve, which waits for a waiter to leave

	mu      sync.Mutex
	socket  *socket // nil between two
	holder  Holder
	waiting bool   // a caller waits for a message that the keeper reads, and would read the next
	waits   uint64 // counts the callers that waited for one

	timer *time.Timer // runs while look will be called
	armed bool
	visit uint64 // counts how often a waiter has held the socket
	seen  uint64 // visit at the last look
}

// ReaderConfig says what a Reader reads for. All but Room must be set.
type ReaderConfig struct {
	// Take gives a frame of the socket to the stream. Its error ends Serve.
	Take func(frame []byte) error
	// Room waits until the keeper may read the next frame; nil is for never.
	Room func(ctx context.Context) error
	// TryRead returns the stream's next message, or nil and nil if it has none yet. Read
	// waits for it.
	TryRead func() ([]byte, error)
	Read    func(ctx context.Context) ([]byte, error)
	// Messages counts the messages that the stream has had.
	Messages func() uint64
	// TakeOver is how long nobody may have read the socket before the keeper does; twice
	// that at the most.
	TakeOver time.Duration
}

// A Holder names the reader of a socket.
type Holder uint8

// The holders of a socket.
const (
	Nobody Holder = iota
	Waiter        // a caller of Read
	Keeper        // the goroutine of Serve
)

// A socket is one that a stream has for a while.
type socket struct {
	ctx  context.Context // ends when it is not to be read any more
	next func(ctx context.Context) ([]byte, error)
	lost chan error // takes why a waiter could not read it
}

// NewReader returns a Reader without a socket.
func NewReader(cfg ReaderConfig) *Reader {
	r := &Reader{cfg: cfg, spare: make(chan struct{}, 1), left: make(chan struct{}, 1)}
	r.timer = time.AfterFunc(time.Hour, r.look)
	r.timer.Stop()
	return r
}

// Holder returns the reader of the socket.
func (r *Reader) Holder() Holder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holder
}

// Serve has a socket read, whose frames next returns, until it is lost or ctx has ended. It
// returns why. One caller at a time.
func (r *Reader) Serve(ctx context.Context, next func(ctx context.Context) ([]byte, error)) error {
	defer r.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &socket{ctx: ctx, next: next, lost: make(chan error, 1)}
	r.open(s)
	for {
		select {
		case <-r.spare:
			if err := r.keep(s); err != nil {
				return err
			}
		case err := <-s.lost:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Read returns the stream's next message. It reads the socket itself, unless ctx can end: a
// read of the socket cannot end without the socket.
func (r *Reader) Read(ctx context.Context) ([]byte, error) {
	willing := ctx.Done() == nil
	for willing {
		if msg, err := r.cfg.TryRead(); msg != nil || err != nil {
			return msg, err
		}
		s := r.enter()
		if s == nil {
			break
		}
		frame, err := s.read()
		if err == nil {
			err = r.cfg.Take(frame)
		}
		r.leave(s, err)
	}
	r.follow(willing)
	defer r.followed()
	return r.cfg.Read(ctx)
}

// keep reads while the keeper holds the socket.
func (r *Reader) keep(s *socket) error {
	for r.Holder() == Keeper {
		if r.cfg.Room != nil {
			if err := r.cfg.Room(s.ctx); err != nil {
				return err
			}
		}
		frame, err := s.read()
		if err != nil {
			return err
		}
		wait, before := r.awaited(), r.cfg.Messages()
		if err := r.cfg.Take(frame); err != nil {
			return err
		}
		if wait != 0 && r.cfg.Messages() != before && r.yield(wait) {
			return nil
		}
	}
	return nil
}

// read returns the next frame.
func (s *socket) read() ([]byte, error) {
	frame, err := s.next(s.ctx)
	if err != nil && s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	return frame, err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// open begins a socket, which the keeper holds.
func (r *Reader) open(s *socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.socket = s
	r.give()
}

// close ends it. A waiter has left when it returns; the socket's ctx must have ended.
func (r *Reader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.socket = nil
	for r.holder == Waiter {
		r.mu.Unlock()
		<-r.left
		r.mu.Lock()
	}
	r.holder = Nobody
	r.timer.Stop()
	r.armed = false
}

// give has the keeper hold the socket. Called with the mutex.
func (r *Reader) give() {
	r.holder = Keeper
	signal(r.spare)
}

// enter has a waiter hold the socket. It returns nil if that is not possible.
func (r *Reader) enter() *socket {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder != Nobody || r.socket == nil {
		return nil
	}
	r.holder = Waiter
	return r.socket
}

// leave ends that. err is why the socket is lost.
func (r *Reader) leave(s *socket, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holder = Nobody
	signal(r.left)
	if err != nil {
		r.socket = nil
		s.lost <- err
		return
	}
	r.visit++
	r.arm()
}

// follow is called by callers that wait for what the keeper reads. Those that are willing hold
// the socket once that has come.
func (r *Reader) follow(willing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = willing
	r.waits++
	if r.holder == Nobody && r.socket != nil {
		r.give()
	}
}

// followed is called by those that have waited.
func (r *Reader) followed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = false
}

// awaited returns which wait there is for what the keeper has read, 0 if there is none that
// ends with the caller reading on.
func (r *Reader) awaited() (wait uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.waiting {
		return 0
	}
	return r.waits
}

// yield has the keeper leave for the caller that waited with wait and has got a message,
// unless one waits for the next already.
func (r *Reader) yield(wait uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting && r.waits != wait {
		return false
	}
	r.holder = Nobody
	r.arm()
	return true
}

// arm has look called. The timer is not set for each message: that would cost more than
// reading it. Called with the mutex.
func (r *Reader) arm() {
	if !r.armed && r.socket != nil {
		r.armed = true
		r.timer.Reset(r.cfg.TakeOver)
	}
}

// look gives the socket to the keeper if nobody has held it since the last look.
func (r *Reader) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = false
	switch {
	case r.holder != Nobody || r.socket == nil:
	case r.visit == r.seen:
		r.give()
	default:
		r.seen = r.visit
		r.arm()
	}
}
