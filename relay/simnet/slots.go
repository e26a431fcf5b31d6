package simnet

import (
	"math/rand/v2"
	"time"
)

// slot is the grain of time. Within each, direction number i delivers i nanoseconds
// after its beginning; directions wrap around after 65,536.
const slot = 1 << 16 * time.Nanosecond

// A schedule says when one direction of a connection delivers.
type schedule struct {
	place time.Duration // within a slot
	rand  *rand.Rand
	last  time.Time // of the latest instant given out
}

func newSchedule(seed, direction uint64) schedule {
	return schedule{
		place: time.Duration(direction % uint64(slot)),
		rand:  rand.New(rand.NewPCG(seed, direction)),
	}
}

// align returns the first instant of this direction that is not before t.
func (s *schedule) align(t time.Time) time.Time {
	past := time.Duration(t.UnixNano()) % slot
	t = t.Add(s.place - past)
	if past > s.place {
		t = t.Add(slot)
	}
	return t
}

// next is align, after all instants given out before: what is sent in order arrives
// in order.
func (s *schedule) next(t time.Time) time.Time {
	if earliest := s.last.Add(1); t.Before(earliest) {
		t = earliest
	}
	s.last = s.align(t)
	return s.last
}

// within returns a duration from 0 to limit by chance.
func (s *schedule) within(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(s.rand.Int64N(int64(limit) + 1))
}
