package harness

import (
	"math/rand/v2"
	"time"
)

// A backoff says how long to wait before a socket is replaced. It has no clock.
type backoff struct {
	rand *rand.Rand
	base time.Duration
}

// next is 0 at first.
func (b *backoff) next() time.Duration {
	base := b.base
	if base == 0 {
		b.base = replaceMin
		return 0
	}
	b.base = min(2*base, replaceMax)
	return base/2 + time.Duration(b.rand.Int64N(int64(base)))
}

// lost tells how a socket that is to be replaced was: how long it lived, and whether
// the stream came any further over it.
func (b *backoff) lost(lived time.Duration, progress bool) {
	switch {
	case lived >= settled:
		b.base = 0
	case progress:
		b.base = min(b.base, replaceMin)
	}
}
