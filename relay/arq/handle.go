package arq

import "time"

// Handle takes a frame from the peer. The stream owns its payload from now on, and may
// change it. The error is Err.
func (s *Stream) Handle(now time.Time, f Frame) error {
	if s.phase == ended {
		return s.err
	}
	s.Advance(now)
	if s.phase == ended {
		return s.err
	}
	if f.Kind == KindReset {
		// Of any epoch: a peer that forgot the stream forgot the epoch, too.
		s.end(&ResetError{f.Reason}, "")
		return s.err
	}
	var err error
	if s.reliable() {
		err = s.handleReliable(now, f)
	} else if f.Kind == KindData {
		err = s.receiver.data(now, f.Data)
	}
	if err != nil {
		s.fail(err)
	}
	return s.err
}

func (s *Stream) handleReliable(now time.Time, f Frame) error {
	if f.Epoch < s.peer {
		s.stats.OldEpoch++
		return nil
	}
	fresh := f.Epoch > s.peer
	s.peer = f.Epoch
	if err := s.sender.acknowledge(now, f.Ack, fresh); err != nil {
		return err
	}
	s.hear(now, fresh)
	if err := s.sender.endure(now); err != nil {
		return err
	}
	switch f.Kind {
	case KindData:
		return s.receiver.data(now, f.Data)
	case KindResume:
		s.resumed(fresh)
	case KindAck, KindHeartbeat:
	default:
		s.stats.Malformed++
	}
	return nil
}

// hear notes that the peer is there. What comes without a socket was read before it was
// lost, and proves nothing.
func (s *Stream) hear(now time.Time, fresh bool) {
	if !s.socket {
		return
	}
	s.alive.heard = now
	if s.phase != open || fresh {
		s.find(now)
	}
	if fresh {
		// "The executor answers with its own resume": the peer asks on until it hears us.
		s.resume = true
	}
}

// resumed answers a resume. Only the first of an epoch is answered in kind, or two
// streams would do so for ever; one more over the same socket asks for an ack.
func (s *Stream) resumed(fresh bool) {
	if !fresh {
		s.receiver.ackNow = true
	}
}

// Next returns the next frame to send now; false if there is none. Its payload must not
// be changed, and stays as it is until the segment is acknowledged.
func (s *Stream) Next(now time.Time) (Frame, bool) {
	s.Advance(now)
	if s.reset && s.socket {
		s.reset = false
		return s.stamp(now, Frame{Kind: KindReset, Reason: s.reason}), true
	}
	switch s.phase {
	case open:
		return s.nextOpen(now)
	case asking, silent, detached:
		if s.resume {
			s.resume = false
			s.alive.ask = now.Add(s.sender.rtt.doubled(s.alive.asked))
			s.alive.asked++
			return s.stamp(now, s.resumeFrame()), true
		}
		s.fill(now)
	case ended:
	}
	return Frame{}, false
}

func (s *Stream) nextOpen(now time.Time) (Frame, bool) {
	if s.resume {
		s.resume = false
		return s.stamp(now, s.resumeFrame()), true
	}
	d, ok, err := s.sender.pull(now)
	if err != nil {
		s.fail(err)
		return s.Next(now) // the reset
	}
	if ok {
		s.stats.SentData++
		return s.stamp(now, Frame{Kind: KindData, Data: d}), true
	}
	if !s.reliable() {
		return Frame{}, false
	}
	s.sender.watchWindow(now)
	if s.receiver.ackNow {
		s.stats.SentAcks++
		return s.stamp(now, Frame{Kind: KindAck}), true
	}
	if s.beat {
		s.alive.beaten()
		s.sender.trim()
		s.receiver.trim()
		return s.stamp(now, Frame{Kind: KindHeartbeat}), true
	}
	return Frame{}, false
}

// fill queues as much of the message that is being written as there is room for. A writer
// waits for room, not for contact.
func (s *Stream) fill(now time.Time) {
	for {
		ok, err := s.sender.fill(now)
		if err != nil {
			s.fail(err)
		}
		if !ok || err != nil {
			return
		}
	}
}

func (s *Stream) resumeFrame() Frame {
	return Frame{Kind: KindResume, NextSeq: uint32(s.sender.next)}
}

// stamp adds what is on every frame: "ack, ack_bits and window ride on every outbound
// frame of the stream, data or not".
func (s *Stream) stamp(now time.Time, f Frame) Frame {
	if s.reliable() {
		f.Ack, f.Epoch = s.receiver.report(), s.epoch
		s.alive.sent, s.beat = now, false
	}
	return f
}
