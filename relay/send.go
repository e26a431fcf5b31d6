package relay

import (
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
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

// A departure is a frame, and the socket that it was made for.
type departure struct {
	frame   arq.Frame
	carrier Carrier
}

// next takes the next frame to send. Called with the mutex.
func (s *Stream) next() (*departure, bool) {
	now := s.now
	s.now = time.Time{}
	if now.IsZero() {
		now = time.Now()
	}
	if s.broken {
		s.arq.Advance(now)
		return nil, false
	}
	f, ok := s.arq.Next(now) // never one without a socket
	s.departing = departure{f, s.carrier}
	return &s.departing, ok
}

// failed is called when the socket took no frame. That is for its reader to judge, who
// may have frames before the end of it: until then nothing more is sent. A reliable
// stream fills its queue meanwhile.
func (s *Stream) failed() {
	if s.cfg.Profile == frame.Reliable {
		s.detach(time.Now())
		return
	}
	s.broken = true
}

// resume calls the rest that the sender left. It returns why the stream ended, if it did.
func (s *Stream) resume(rest func()) error {
	rest()
	s.mu.Lock()
	failure := s.failure()
	s.leave(time.Now())
	return failure
}

// check takes note of how the write of d went.
func (s *Stream) check(d *departure, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carrier == d.carrier && !s.ended {
		s.log.Debug("relay socket failed", "stream", s.cfg.ID, "err", err)
		s.failed()
	}
}

// write belongs to the sender, as what it uses of s.
func (s *Stream) write(d *departure) {
	msg, err := s.encode(d)
	if err == nil {
		err = d.carrier.Write(s.life, msg)
		s.sent(d)
	}
	s.check(d, err)
}

// tryWrite is write as far as that goes without waiting.
func (s *Stream) tryWrite(d *departure) (finish func()) {
	try, ok := d.carrier.(rpc.TryWriter)
	if !ok {
		return func() { s.write(d) }
	}
	msg, err := s.encode(d)
	if err == nil {
		var rest func() error
		if rest, err = try.TryWrite(msg); rest != nil {
			return func() {
				err := rest()
				s.sent(d)
				s.check(d, err)
			}
		}
		s.sent(d)
	}
	s.check(d, err)
	return nil
}

// encode makes the message that d is. It shares the memory of d's record, or is s.head.
func (s *Stream) encode(d *departure) (msg []byte, err error) {
	m := s.out.fill(d.frame, &s.cfg)
	if buf := d.frame.Data.Payload; d.frame.Kind == arq.KindData {
		if s.head, err = frame.AppendHead(s.head[:0], m, len(buf)-s.seal.room); err == nil {
			msg = s.seal.framed(buf, s.head)
		}
	} else {
		s.head, err = frame.Append(s.head[:0], m)
		msg = s.head
	}
	if err == nil {
		s.trace(Out, m, max(0, len(d.frame.Data.Payload)-s.seal.room))
	}
	return msg, err
}

// sent gives back what encode took of d, and reports a segment that is not sent again.
func (s *Stream) sent(d *departure) {
	if d.frame.Kind == arq.KindData {
		if seq := int64(d.frame.Data.Seq); seq >= s.unsent {
			s.unsent = seq + 1
			s.progress.Sent(len(d.frame.Data.Payload))
		}
		s.seal.sent(d.frame.Data.Payload)
	}
}

// leave ends what began with the mutex: it sends what is due, what has to wait in a
// goroutine that ends when nothing is, sets the timer, wakes those who wait, and unlocks.
func (s *Stream) leave(now time.Time) {
	if s.sender.Busy() {
		s.arq.Advance(now) // whoever sends may hang in its socket
	} else {
		s.now = now
		if rest := s.sender.Start(); rest != nil {
			go func() { _ = s.resume(rest) }() // ends with what is due; see finish for a write that hangs
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
	var takes rpc.Taker
	if err != nil {
		takes, s.takes = s.takes, nil
		if takes != nil {
			_, err = s.message(now)
		}
	}
	silent := s.arq.Silent() && !s.silent
	s.silent = s.arq.Silent()
	if err != nil && !s.ended {
		s.ended = true
		close(s.done)
		if s.sender.Busy() { // perhaps the reset that says so
			s.goodbye = time.AfterFunc(CloseTimeout, s.finish)
		}
	}
	finished := s.ended && !s.sender.Busy()
	s.mu.Unlock()
	if takes != nil {
		takes(nil, err, nil)
	}
	if silent && s.cfg.OnSilent != nil {
		s.cfg.OnSilent()
	}
	if finished {
		s.finish()
	}
}

// finish is called when a stream that has ended has said so to its peer, or did not come
// to say so within CloseTimeout.
func (s *Stream) finish() {
	s.once.Do(func() {
		s.mu.Lock()
		if s.goodbye != nil {
			s.goodbye.Stop()
		}
		if s.timer != nil {
			s.timer.Stop()
		}
		err := s.failure()
		s.mu.Unlock()
		s.end() // of a write that waits for its turn
		close(s.gone)
		if s.cfg.OnEnd != nil {
			s.cfg.OnEnd(err)
		}
	})
}

// arm sets the timer for when the state machine wants to be called. It may be late for
// what it has to send, if somebody hangs in a write.
func (s *Stream) arm(now time.Time) {
	at := s.arq.Deadline()
	if at.IsZero() {
		return
	}
	if s.sender.Busy() {
		at = later(at, now.Add(CloseTimeout))
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

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (s *Stream) tick() {
	now := time.Now()
	s.mu.Lock()
	s.armed = time.Time{}
	s.leave(now)
}
