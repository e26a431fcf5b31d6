package arq

import (
	"fmt"
	"time"
)

// check says which invariant of a stream does not hold. It looks after every step of
// every test here. settled says that Next had nothing more to send.
func check(s *Stream, now time.Time, settled bool) error {
	if s.phase == ended {
		if s.err == nil || s.sender.msg != nil || s.sender.bytes != 0 || s.receiver.keptCount != 0 {
			return fmt.Errorf("ended with err %v, %d bytes queued, %d records kept", s.err, s.sender.bytes, s.receiver.keptCount)
		}
		return nil
	}
	if err := checkSender(s.sender, settled && s.phase == open); err != nil {
		return err
	}
	if err := checkReceiver(s.receiver); err != nil {
		return err
	}
	if s.sender.contact != (s.phase == open) || s.alive.lost.IsZero() != (s.phase == open) {
		return fmt.Errorf("phase %v, but contact is %v and lost at %v", s.phase, s.sender.contact, s.alive.lost)
	}
	if !s.reliable() {
		return nil
	}
	if d := s.Deadline(); settled && (d.IsZero() || !d.After(now)) {
		return fmt.Errorf("deadline %v is not to come, phase %v", d.Sub(now), s.phase)
	}
	return nil
}

func checkSender(s *sender, settled bool) error {
	l := &s.cfg.limits
	if s.una > s.sentTo || s.sentTo > s.next || s.next-s.una > uint64(l.segments) {
		return fmt.Errorf("queue from %d to %d to %d, limit %d", s.una, s.sentTo, s.next, l.segments)
	}
	if s.reliable() && s.next > s.credit {
		return fmt.Errorf("next %d beyond credit %d", s.next, s.credit)
	}
	count, dues, suspects := 0, 0, 0
	if s.reliable() {
		for seq := s.una; seq < s.next; seq++ {
			seg := s.queue.at(seq)
			count += len(seg.data.Payload)
			switch {
			case uint64(seg.data.Seq) != seq:
				return fmt.Errorf("slot of %d holds %d", seq, seg.data.Seq)
			case seg.state == due:
				dues++
				if seq < s.dueFrom {
					return fmt.Errorf("%d is due before %d", seq, s.dueFrom)
				}
			case seg.state == suspect:
				suspects++
			case seg.state == held && (seq == s.una || seq >= s.heldTo):
				return fmt.Errorf("%d is held; oldest %d, held to %d", seq, s.una, s.heldTo)
			}
			if seg.times > 0 != (seq < s.sentTo) {
				return fmt.Errorf("%d was sent %d times, sent to %d", seq, seg.times, s.sentTo)
			}
		}
		if len(s.queue.slots) > max(8, 2*l.segments) {
			return fmt.Errorf("queue of %d slots", len(s.queue.slots))
		}
	}
	if count != s.bytes || count > l.bytes || dues != s.dues || suspects != s.suspects {
		return fmt.Errorf("%d bytes (counted %d, limit %d), %d due (%d), %d suspect (%d)", s.bytes, count, l.bytes, s.dues, dues, s.suspects, suspects)
	}
	if settled && s.reliable() && s.una < s.next && (s.dues > 0 || s.timer.IsZero()) {
		return fmt.Errorf("unacknowledged from %d to %d, %d due, timer %v", s.una, s.next, s.dues, s.timer)
	}
	if !s.contact && (!s.timer.IsZero() || !s.probe.IsZero()) {
		return fmt.Errorf("timer runs without contact")
	}
	return nil
}

func checkReceiver(r *receiver) error {
	l := &r.cfg.limits
	count, size, lead, limit := 0, 0, l.segments, l.bytes
	if !r.reliable() {
		lead, limit = CodexLead+1, CodexBytes
	}
	for i := range r.kept.slots {
		if p := r.kept.slots[i].Payload; p != nil {
			count++
			size += len(p)
		}
	}
	if count != r.keptCount || size != r.keptBytes || count >= lead || size > limit || len(r.kept.slots) > max(8, 2*lead) {
		return fmt.Errorf("kept %d records (counted %d) of %d bytes (counted %d) in %d slots", r.keptCount, count, r.keptBytes, size, len(r.kept.slots))
	}
	if r.has(r.next) {
		return fmt.Errorf("record %d was not opened", r.next)
	}
	waiting := 0
	for _, m := range r.whole {
		waiting += m.segments
	}
	// One message may be as long as it likes; what waits before it and what the
	// window let in after it is within the window's width.
	if waiting != r.waiting || r.reliable() && waiting > l.pieces+2*l.segments {
		return fmt.Errorf("%d segments wait (counted %d)", r.waiting, waiting)
	}
	if r.assembler.parts.total > l.message {
		return fmt.Errorf("%d bytes of a message", r.assembler.parts.total)
	}
	if r.reliable() && (r.window < r.next || r.window > r.next+uint64(l.segments) || r.told > r.window) {
		return fmt.Errorf("window %d, told %d, next %d", r.window, r.told, r.next)
	}
	return nil
}
