package arq

import "time"

// rtt estimates the round trip as RFC 6298 has it, and from it how long to wait for an
// ack. The zero value has measured nothing.
type rtt struct {
	measured         bool
	smoothed, spread time.Duration
	// backoff is how often the timer went off since the last sample.
	backoff int
}

// granularity is RFC 6298's G.
const granularity = time.Millisecond

// sample takes a measurement. It must be of a segment that was sent once, or nobody
// knows which sending was acknowledged.
func (r *rtt) sample(d time.Duration) {
	d = max(d, 0)
	r.backoff = 0
	if !r.measured {
		r.measured, r.smoothed, r.spread = true, d, d/2
		return
	}
	// (2.3): RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|, then SRTT <- 7/8 SRTT + 1/8 R.
	r.spread += ((r.smoothed - d).Abs() - r.spread) / 4
	r.smoothed += (d - r.smoothed) / 8
}

// trip is how long a round trip takes.
func (r *rtt) trip() time.Duration {
	if !r.measured {
		return ResendInitial
	}
	return max(r.smoothed, granularity)
}

// base is the timeout before it is bounded and doubled.
func (r *rtt) base() time.Duration {
	if !r.measured {
		return ResendInitial
	}
	return r.smoothed + max(granularity, 4*r.spread)
}

// timeout is how long to wait before sending the oldest segment again.
func (r *rtt) timeout() time.Duration { return r.doubled(r.backoff) }

// doubled is the wait after n vain ones.
func (r *rtt) doubled(n int) time.Duration {
	d := min(max(r.base(), ResendFloor), ResendCeiling)
	for ; n > 0 && d < ResendCeiling; n-- {
		d *= 2
	}
	return min(d, ResendCeiling)
}

// expired doubles the timeout.
func (r *rtt) expired() {
	if r.timeout() < ResendCeiling {
		r.backoff++
	}
}
