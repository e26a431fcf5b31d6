package client

import (
	"math/rand/v2"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// attachedDelay is the delay after the server said that the session's old connection
// is still alive, which ends at any moment.
const attachedDelay = 100 * time.Millisecond

// backoff says when to try again. It has no clock of its own.
type backoff struct {
	policy Reconnect
	rand   *rand.Rand
	began  time.Time // of the time without a connection
	delay  time.Duration
}

func newBackoff(policy Reconnect, grace time.Duration, now time.Time, r *rand.Rand) *backoff {
	if policy.GiveUpAfter == 0 {
		policy.GiveUpAfter = grace
	}
	if policy.GiveUpAfter == 0 {
		policy.GiveUpAfter = protocol.SessionGrace
	}
	return &backoff{policy: policy, rand: r, began: now, delay: policy.MinDelay}
}

// next returns how long to wait after an attempt that failed at now, and false when
// there should be no other. attached is true when the server refused because the
// session's old connection is alive.
func (b *backoff) next(now time.Time, attached bool) (time.Duration, bool) {
	base := b.delay
	if attached {
		base = attachedDelay
	} else {
		b.delay = min(2*b.delay, b.policy.MaxDelay)
	}
	delay := base/2 + time.Duration(b.rand.Int64N(int64(base)))
	return delay, now.Add(delay).Sub(b.began) < b.policy.GiveUpAfter
}
