package arq

import (
	"errors"
	"time"
)

// phase is where a stream is in its life; doc.go has the picture.
type phase uint8

const (
	// open: there is a socket, and the peer was heard over it.
	open phase = iota
	// asking: there is a new socket, and a resume went over it.
	asking
	// silent: there is a socket, but the peer has not been heard for too long.
	silent
	// detached: there is no socket.
	detached
	// ended: err says why.
	ended
)

func (p phase) String() string {
	return [...]string{"open", "asking", "silent", "detached", "ended"}[p]
}

// A Stream is one end of a stream whose handshake is done. It is pure state: nothing
// happens but in its methods, time is what they are told, and at most one may run at
// a time.
//
// Its owner calls Handle for each frame that comes; after anything that it calls, Next
// until there is nothing to send, unless the socket takes no more; then takes Messages
// and looks at Writable and Err; and waits for something to do, until Deadline at most,
// when it calls Advance.
type Stream struct {
	cfg      Config
	stats    Stats
	sender   *sender
	receiver *receiver
	alive    *liveness

	phase  phase
	socket bool
	err    error
	// epoch counts our sockets before this one, peer those of the other end.
	epoch, peer uint32

	// resume, beat and reset are frames that wait to be sent.
	resume, beat, reset bool
	reason              string
}

// New returns a stream on its first socket. cfg.Seal and cfg.Open must be set.
func New(cfg Config, now time.Time) *Stream {
	s := &Stream{cfg: cfg}
	s.cfg.setDefaults()
	s.sender = newSender(&s.cfg, &s.stats)
	s.receiver = newReceiver(&s.cfg, &s.stats)
	s.alive = newLiveness(&s.cfg, now)
	s.socket = true
	return s
}

func (s *Stream) reliable() bool { return s.cfg.Profile == Reliable }

// Write begins to send a message. The stream reads msg until it is Writable again, or
// has ended. ErrBusy before that; ErrSize for a message that no stream carries.
func (s *Stream) Write(msg []byte) error {
	if s.err != nil {
		return s.err
	}
	return s.sender.write(msg)
}

// Writable says whether a message may be written: the one before is cut into segments.
func (s *Stream) Writable() bool { return s.sender.msg == nil && s.err == nil }

// Withdraw gives back the message that is being written, and reports whether it was
// taken back whole. If not, the peer has a part of it: the rest was copied and is sent.
func (s *Stream) Withdraw() bool { return s.sender.withdraw() }

// Flushed says that the peer has all that was written.
func (s *Stream) Flushed() bool {
	return s.sender.msg == nil && s.sender.una == s.sender.next
}

// Message takes the next message from the peer. What waits can be taken after the end
// of the stream, too.
func (s *Stream) Message(now time.Time) ([]byte, bool) { return s.receiver.take(now) }

// Waiting is how many messages there are to take.
func (s *Stream) Waiting() int { return len(s.receiver.whole) }

// Err is why the stream ended; nil while it has not. A ProtocolError or a ResetError
// is the peer's doing.
func (s *Stream) Err() error { return s.err }

// Silent says that the peer has not been heard for too long over a socket that seems to
// work. A harness should replace the socket; an executor, whose socket has other streams,
// waits for the harness to come back.
func (s *Stream) Silent() bool { return s.phase == silent }

// Epoch is that of the frames that the stream sends now.
func (s *Stream) Epoch() uint32 { return s.epoch }

// Stats are the counts up to now.
func (s *Stream) Stats() Stats { return s.stats }

// RTT is the estimated time of a round trip, 0 before it was measured.
func (s *Stream) RTT() time.Duration { return s.sender.rtt.smoothed }

// Cursors are how far the stream has come. A stream whose Sent comes near 2^32 should be
// replaced: it ends there.
func (s *Stream) Cursors() Cursors {
	return Cursors{Sent: s.sender.next, Acked: s.sender.una, Credit: s.sender.credit, Received: s.receiver.next}
}

// Detach says that the socket is lost.
func (s *Stream) Detach(now time.Time) {
	s.socket = false
	if s.phase == ended {
		return
	}
	if !s.reliable() {
		s.end(ErrDetached, "")
		return
	}
	s.lose(now, detached)
}

// Attach says that there is a new socket. What comes first over it is a resume. It must
// not be called in the codex profile, whose streams end with their sockets.
func (s *Stream) Attach(now time.Time) {
	if s.phase == ended || !s.reliable() {
		return
	}
	s.socket = true
	s.lose(now, asking)
	s.alive.begin(now)
	s.epoch++
	s.resume = true
}

// Reset ends the stream from this end, and tells the peer why if there is a socket.
// Nothing is flushed; look at Flushed before.
func (s *Stream) Reset(reason string) {
	if s.phase != ended {
		s.end(ErrClosed, reason)
	}
}

// lose ends contact with the peer.
func (s *Stream) lose(now time.Time, p phase) {
	s.phase = p
	s.resume, s.beat = false, false
	s.sender.lost()
	if s.alive.lost.IsZero() {
		s.alive.lost = now
	}
}

// find is the opposite: the peer was heard.
func (s *Stream) find(now time.Time) {
	s.phase = open
	s.resume = false
	s.alive.lost, s.alive.ask = time.Time{}, time.Time{}
	s.sender.found(now)
}

// fail ends the stream for what went wrong in it, and tells the peer.
func (s *Stream) fail(err error) {
	if e, ok := errors.AsType[*ProtocolError](err); ok {
		e.Cursors = s.Cursors()
		s.end(err, ReasonProtocol)
		return
	}
	if e, ok := errors.AsType[*GiveUpError](err); ok {
		e.Cursors = s.Cursors()
		s.end(err, ReasonGaveUp)
		return
	}
	if errors.Is(err, ErrSeqEnd) {
		s.end(err, ReasonSeqEnd)
		return
	}
	s.end(err, ReasonInternal)
}

func (s *Stream) end(err error, reason string) {
	s.phase, s.err = ended, err
	s.resume, s.beat = false, false
	s.reset, s.reason = s.socket && reason != "", reason
	s.sender.drop()
	s.receiver.drop()
}

// Advance does what is due. Next does so too.
func (s *Stream) Advance(now time.Time) {
	if s.phase == ended || !s.reliable() {
		return
	}
	if past(s.alive.endsAt(), now) {
		s.fail(&GiveUpError{For: "contact", After: s.cfg.Life})
		return
	}
	if s.phase == open || s.phase == asking {
		if past(s.alive.silentFrom(), now) {
			s.lose(now, silent)
		}
	}
	switch s.phase {
	case open:
		if s.sender.expire(now) {
			s.resume = true
		}
		s.receiver.expire(now)
		if past(s.alive.nextBeat(), now) {
			s.beat = true
		}
	case asking:
		if past(s.alive.ask, now) {
			s.alive.ask, s.resume = time.Time{}, true
		}
	case silent, detached, ended:
	}
}

// Deadline is when Advance should be called; zero for never. It is a time to come, as
// long as Next has nothing more to send.
func (s *Stream) Deadline() time.Time {
	switch s.phase {
	case open:
		if !s.reliable() {
			return time.Time{}
		}
		t := earliest(s.sender.deadline(), s.receiver.ackAt)
		if !s.beat {
			t = earliest(t, s.alive.nextBeat())
		}
		return earliest(t, s.alive.silentFrom())
	case asking:
		return earliest(earliest(s.alive.ask, s.alive.silentFrom()), s.alive.endsAt())
	case silent, detached:
		return s.alive.endsAt()
	default:
		return time.Time{}
	}
}
