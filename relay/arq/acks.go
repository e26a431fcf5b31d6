package arq

import "time"

// widen computes the window: "next in-order seq + free slots (256 minus undelivered
// messages' segments). It never moves back."
func (r *receiver) widen() {
	free := max(r.cfg.limits.segments-r.waiting, 0)
	r.window = max(r.window, min(r.next+uint64(free), maxSeq))
}

// schedule says when to acknowledge what came in order: "after 16 unacknowledged
// segments, or 25 ms".
func (r *receiver) schedule(now time.Time) {
	switch {
	case !r.reliable() || r.owed == 0:
	case r.owed >= AckSegments:
		r.ackNow = true
	case r.ackAt.IsZero():
		r.ackAt = now.Add(AckDelay)
	}
}

// reopen tells the peer "at once when a stalled window opens": it has used up what it
// heard of. Less than is worth a frame of its own waits a little for more.
func (r *receiver) reopen(now time.Time) {
	switch {
	case !r.reliable() || r.told > r.next || r.window == r.told:
	case r.window-r.told >= AckSegments || len(r.whole) == 0:
		r.ackNow = true
	case r.ackAt.IsZero():
		r.ackAt = now.Add(AckDelay)
	}
}

// expire does what the clock asks for.
func (r *receiver) expire(now time.Time) {
	if past(r.ackAt, now) {
		r.ackAt, r.ackNow = time.Time{}, true
	}
}

// report is the ack of a frame that leaves now. With it nothing is owed any more.
func (r *receiver) report() Ack {
	r.owed, r.ackAt, r.ackNow = 0, time.Time{}, false
	r.told = r.window
	return r.ack()
}

// ack says what was received and is welcome.
func (r *receiver) ack() Ack {
	a := Ack{HasWindow: true, Window: uint32(r.window)}
	if r.next > 0 {
		a.HasAck, a.Ack = true, uint32(r.next-1)
	}
	if r.keptCount == 0 {
		return a
	}
	for i := uint64(0); i < 32; i++ {
		if r.has(r.next + i) {
			a.Bits |= 1 << i
		}
	}
	return a
}
