package arq

import "time"

// acknowledge takes what a frame of the peer says that it has and will take. fresh says
// that it is the first frame of a newer epoch, made after all that came before; then
// an ack that moves back proves that an earlier one was forged, or that the peer lost
// its memory.
func (s *sender) acknowledge(now time.Time, a Ack, fresh bool) error {
	upto := a.next()
	switch {
	case upto > s.sentTo:
		s.stats.AckBeyond++
		return nil
	case upto < s.una:
		s.stats.AckBack++
		return s.deny(now, fresh)
	}
	s.denied = time.Time{}
	moved := int(upto - s.una)
	sample, spurious := s.release(upto)
	kept, newest := s.hold(a)
	if !newest.IsZero() {
		sample = newest
	}
	if !sample.IsZero() {
		s.rtt.sample(now.Sub(sample))
	}
	s.welcome(a)
	if moved > 0 || kept > 0 {
		s.advanced(now, moved, kept, spurious)
	}
	s.fast(now)
	return nil
}

// release lets the segments before upto go. It returns when the newest of them that
// can be measured was sent, and whether one has come whose loss was suspected.
func (s *sender) release(upto uint64) (sample time.Time, spurious bool) {
	for ; s.una < upto; s.una++ {
		seg := s.queue.at(s.una)
		if seg.state != held && seg.times == 1 {
			sample = seg.sent
		}
		spurious = spurious || seg.state == suspect && seg.times == 1
		s.mark(s.una, flying)
		s.bytes -= len(seg.data.Payload)
		*seg = segment{}
	}
	return sample, spurious
}

// hold marks what the peer keeps ahead of a gap. It returns how many segments are new
// among these, and when the newest that can be measured was sent.
func (s *sender) hold(a Ack) (kept int, sample time.Time) {
	// The first that is missing is not there, whatever was said before: the peer
	// would have counted it. What it kept of it did not open.
	if s.una < s.sentTo && s.queue.at(s.una).state == held {
		s.mark(s.una, due)
	}
	for i := uint64(1); i < 32 && a.Bits>>i != 0; i++ {
		if a.Bits>>i&1 == 0 {
			continue
		}
		seq := s.una + i
		if seq >= s.sentTo {
			s.stats.AckBeyond++
			return kept, sample
		}
		seg := s.queue.at(seq)
		if seg.state == held {
			continue
		}
		if seg.times == 1 {
			sample = seg.sent
		}
		s.mark(seq, held)
		kept++
	}
	return kept, sample
}

// welcome takes the peer's window. It never moves back, and no peer has a wider one.
func (s *sender) welcome(a Ack) {
	if !a.HasWindow {
		return
	}
	if uint64(a.Window) > a.next()+uint64(s.cfg.limits.segments) {
		s.stats.WindowBeyond++
		return
	}
	s.credit = max(s.credit, uint64(a.Window))
}

// advanced winds up the timers after progress: moved segments acknowledged, kept more
// that the peer has.
func (s *sender) advanced(now time.Time, moved, kept int, spurious bool) {
	s.stalled, s.since = 0, now
	if s.una == s.next {
		s.timer = time.Time{}
		return
	}
	// RFC 6298 (5.3).
	if moved > 0 && !s.timer.IsZero() {
		s.timer = now.Add(s.rtt.timeout())
	}
	if s.suspects == 0 {
		return
	}
	// One that was suspected has come: the timer was too quick, not the path lossy.
	// Otherwise two more go out for each that came, so that a burst of losses is
	// made good in a few round trips and not one by one.
	to, n := due, 2*(moved+kept)
	if spurious {
		to, n = flying, s.suspects
	}
	for seq := s.una; seq < s.sentTo && n > 0 && s.suspects > 0; seq++ {
		if s.queue.at(seq).state == suspect {
			s.mark(seq, to)
			n--
		}
	}
}

// fast finds what is lost without the timer: "a segment with 3 later ones acknowledged
// is resent at once, once per RTT".
func (s *sender) fast(now time.Time) {
	const later = 3
	if s.heldTo <= s.una {
		return
	}
	count := 0
	for seq := s.heldTo; seq > s.una; {
		seq--
		seg := s.queue.at(seq)
		switch {
		case seg.state == held:
			count++
		case count < later || seg.state == due:
		case seg.times == 1 || now.Sub(seg.sent) >= s.rtt.trip():
			s.mark(seq, due)
			s.stats.Fast++
		}
	}
}

// expire does what the clock asks for. ask says that the peer should be asked for its
// window.
func (s *sender) expire(now time.Time) (ask bool) {
	if past(s.timer, now) {
		s.timeout(now)
	}
	if past(s.probe, now) {
		s.probes++
		s.probe = now.Add(s.rtt.doubled(s.probes))
		return true
	}
	return false
}

// endure counts how long resending is in vain, now that the peer was heard: "60 s of
// resends with a live socket and no progress: the stream fails". DefaultGiveUp says why
// it is longer.
func (s *sender) endure(now time.Time) error {
	if !s.contact {
		return nil
	}
	if s.una == s.sentTo {
		s.stalled, s.since = 0, now
		return nil
	}
	s.stalled += now.Sub(s.since)
	s.since = now
	if s.stalled >= s.cfg.GiveUp {
		return &GiveUpError{For: "progress", After: s.cfg.GiveUp}
	}
	return nil
}

// timeout sends the oldest segment again, and suspects all that went before it.
func (s *sender) timeout(now time.Time) {
	// It may wait for a socket that is not as quick as the timer. Then it is not lost.
	if s.queue.at(s.una).state != due {
		since := now.Add(-s.rtt.timeout())
		for seq := s.una + 1; seq < s.sentTo; seq++ {
			if seg := s.queue.at(seq); seg.state == flying && !seg.sent.After(since) {
				s.mark(seq, suspect)
			}
		}
		s.rtt.expired()
		s.stats.Timeouts++
		s.mark(s.una, due)
	}
	s.timer = now.Add(s.rtt.timeout())
}

// deny notes an ack that moves back. One may have been overtaken by others. Nothing but
// such acks for as long as we would resend in vain means that we let go of a segment
// that the peer does not have: somebody forged its ack.
func (s *sender) deny(now time.Time, fresh bool) error {
	if s.denied.IsZero() {
		s.denied = now
	}
	if fresh || now.Sub(s.denied) >= s.cfg.GiveUp {
		return &ProtocolError{Problem: "acknowledged what it does not have"}
	}
	return nil
}

// lost stops the clock: there is nobody to send to.
func (s *sender) lost() {
	s.contact = false
	s.timer, s.probe = time.Time{}, time.Time{}
}

// found starts it again. Whatever was on its way is lost, as far as anybody knows.
func (s *sender) found(now time.Time) {
	s.contact = true
	s.rtt.backoff, s.probes = 0, 0
	s.timer, s.probe, s.denied = time.Time{}, time.Time{}, time.Time{}
	s.since = now
	for seq := s.una; seq < s.next; seq++ {
		if st := s.queue.at(seq).state; st == flying || st == suspect {
			s.mark(seq, due)
		}
	}
}

// deadline is when expire wants to be called; zero for never.
func (s *sender) deadline() time.Time {
	return earliest(s.timer, s.probe)
}

// past says whether a time is set and has come.
func past(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// earliest is the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
