package capnweb

import "time"

const (
	firstWindow = 256 << 10
	minWindow   = 64 << 10
	// maxWindow bounds what a stream has in flight, and with it what the peer must hold.
	maxWindow = 16 << 20
)

// A window decides how many bytes of a stream may be in flight. It follows what the path
// and the reader take: the bytes acknowledged per time, times the shortest round trip,
// times a factor of growth, which is larger until growing has brought nothing for three
// rounds. It never shrinks by more than a tenth for one acknowledgement.
//
// It is pure state: whoever owns it gives the time.
type window struct {
	fixed    bool
	size     int // bytes that may be in flight
	inFlight int

	acked      int       // bytes, since the beginning
	ackedAt    time.Time // of the latest acknowledgement; zero before the first
	firstAcked int       // bytes by the first acknowledgement
	firstAt    time.Time
	minTrip    time.Duration

	steady     bool // growing has ended
	idleRounds int
	roundAt    time.Time
	roundSize  int
}

// A flight is one message on its way.
type flight struct {
	size    int
	at      time.Time
	acked   int // bytes acknowledged when it left
	ackedAt time.Time
	window  int
	full    bool // it filled the window
}

// newWindow returns a window that stays at fixed bytes, or adapts if that is 0.
func newWindow(fixed int) window {
	if fixed > 0 {
		return window{fixed: true, size: fixed}
	}
	return window{size: firstWindow}
}

// full reports whether the next message has to wait.
func (w *window) full() bool { return w.inFlight >= w.size }

// send counts a message that leaves.
func (w *window) send(size int, now time.Time) flight {
	w.inFlight += size
	return flight{size, now, w.acked, w.ackedAt, w.size, w.full()}
}

// lose counts a message that was rejected.
func (w *window) lose(f flight) { w.inFlight -= f.size }

// ack counts a message that was acknowledged.
func (w *window) ack(f flight, now time.Time) {
	w.inFlight -= f.size
	w.acked += f.size
	w.ackedAt = now
	if w.fixed {
		return
	}
	trip := max(now.Sub(f.at), time.Microsecond)
	if w.minTrip == 0 || trip < w.minTrip {
		w.minTrip = trip
	}
	if w.firstAt.IsZero() {
		w.firstAt, w.firstAcked = now, w.acked
		return
	}
	since, from := f.ackedAt, f.acked
	if since.IsZero() {
		since, from = w.firstAt, w.firstAcked
	}
	w.resize(f, float64(w.acked-from)/float64(max(now.Sub(since), time.Microsecond)))
	w.round(f, now)
}

// resize sets the size by the rate of acknowledgement, in bytes per nanosecond.
func (w *window) resize(f flight, rate float64) {
	factor := 2.0
	if w.steady {
		factor = 1.25
	}
	size := min(rate*float64(w.minTrip)*factor, float64(f.window)*factor)
	if f.full {
		size = max(size, float64(f.window)*0.9)
	} else {
		size = max(size, float64(w.size)) // nothing is known of what is not tried
	}
	w.size = int(max(min(size, maxWindow), minWindow))
}

// round ends growing after three round trips without any.
func (w *window) round(f flight, now time.Time) {
	if w.steady || f.at.Before(w.roundAt) {
		return
	}
	if float64(w.size) > float64(w.roundSize)*1.25 {
		w.idleRounds = 0
	} else if w.idleRounds++; w.idleRounds >= 3 {
		w.steady = true
	}
	w.roundAt, w.roundSize = now, w.size
}
