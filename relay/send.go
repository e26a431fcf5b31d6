package relay

import (
	"context"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
)

// A signal wakes whoever waits for it; set again before that, it wakes them once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// next takes the next frame to send. Called with the mutex.
func (s *Stream) next(now time.Time) (arq.Frame, bool) {
	if s.carrier == nil {
		s.arq.Advance(now)
		return arq.Frame{}, false
	}
	return s.arq.Next(now)
}

// flush sends what is due, unless somebody does already: they take it along. Called with
// the mutex, which is not held over writes.
func (s *Stream) flush() {
	if s.sending {
		return
	}
	if f, ok := s.next(time.Now()); ok {
		s.sending = true
		s.send(f)
	}
}

// send writes f and all that is due after it. Called with the mutex, by the one who has
// set sending.
func (s *Stream) send(f arq.Frame) {
	for ok := true; ok; f, ok = s.next(time.Now()) {
		carrier := s.carrier
		if carrier == nil {
			continue // lost since; whatever f was is sent again when there is another
		}
		s.mu.Unlock()
		err := s.write(carrier, f)
		s.mu.Lock()
		if err != nil && s.carrier == carrier {
			s.log.Debug("relay socket failed", "stream", s.cfg.ID, "err", err)
			s.detach(time.Now())
		}
	}
	s.sending = false
	s.left.set()
}

// buffers hold frames while they are written.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, arq.MaxRecord+1024); return &b }}

func (s *Stream) write(carrier Carrier, f arq.Frame) error {
	out := s.outgoing(f)
	if s.cfg.Trace != nil {
		s.cfg.Trace(FrameEvent(Out, out))
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var err error
	if *buf, err = frame.Append((*buf)[:0], out); err != nil {
		return err
	}
	// The end of a stream must not end a write halfway, as the socket may have other
	// streams; the carrier bounds it.
	if err := carrier.Write(context.Background(), *buf); err != nil {
		_ = carrier.Close() // so that whoever reads it hears of it
		return err
	}
	return nil
}

// leave ends what began with the mutex: it lets what is due be sent, by a goroutine that
// ends when nothing is, sets the timer, wakes those who wait, and unlocks.
func (s *Stream) leave(now time.Time) {
	if !s.sending {
		if f, ok := s.next(now); ok {
			s.sending = true
			go func() { // ends with what is due; a write that hangs ends with its carrier
				s.mu.Lock()
				s.send(f)
				s.leave(time.Now())
			}()
		}
	}
	s.arm(now)
	err := s.failure()
	if s.arq.Waiting() > 0 || err != nil {
		s.readable.set()
	}
	if s.arq.Waiting() < MaxWaiting || err != nil {
		s.room.set()
	}
	if s.arq.Writable() || err != nil {
		s.writable.set()
	}
	if s.closing {
		s.left.set()
	}
	silent := s.arq.Silent() && !s.silent
	s.silent = s.arq.Silent()
	ended := err != nil && !s.ended
	if ended {
		s.ended = true
		close(s.done)
	}
	s.mu.Unlock()
	if silent && s.cfg.OnSilent != nil {
		s.cfg.OnSilent()
	}
	if ended && s.cfg.OnEnd != nil {
		s.cfg.OnEnd(err)
	}
}

// arm sets the timer for when the state machine wants to be called. While somebody sends
// it is theirs to do so.
func (s *Stream) arm(now time.Time) {
	if s.sending {
		return
	}
	at := s.arq.Deadline()
	if at.IsZero() {
		if s.timer != nil && s.arq.Err() != nil {
			s.timer.Stop()
		}
		return
	}
	if !s.armed.IsZero() && !at.Before(s.armed) {
		return // it goes off before, and is set again then
	}
	s.armed = at
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.tick)
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

func (s *Stream) tick() {
	now := time.Now()
	s.mu.Lock()
	s.armed = time.Time{}
	s.leave(now)
}
