package executor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/wsd-dev/wsd/relay"
)

// A backoff spaces out attempts to connect.
type backoff struct {
	rand *rand.Rand
	base time.Duration
	// away is since when the relay cannot be reached; zero if it can.
	away time.Time
}

// next is how long to wait now.
func (b *backoff) next() time.Duration {
	ceiling := BackoffCeiling
	if !b.away.IsZero() && time.Since(b.away) < AwayTime {
		ceiling = BackoffAway
	}
	b.base = min(max(2*b.base, BackoffBase), ceiling)
	return b.base/2 + time.Duration(b.rand.Int64N(int64(b.base/2)+1))
}

// failed notes why an attempt failed. An answer of 4xx is one of a relay that is there.
func (b *backoff) failed(err error) {
	if r, ok := errors.AsType[*relay.RefusedError](err); ok && r.Status/100 == 4 {
		b.away = time.Time{}
	} else if b.away.IsZero() {
		b.away = time.Now()
	}
}

// lasted says how long a connection did. Only a long one clears the backoff, or one that
// was waited for because the relay was away: two executors that throw each other out
// connect often, and briefly.
func (b *backoff) lasted(d time.Duration) {
	if d >= BackoffCleared || !b.away.IsZero() {
		b.base = 0
	}
	b.away = time.Time{}
}

// wait waits for d, and reports whether ctx has not ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
