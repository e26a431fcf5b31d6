package executor

import (
	"context"
	"math/rand/v2"
	"time"
)

// A backoff spaces out attempts to connect.
type backoff struct {
	rand *rand.Rand
	base time.Duration
}

// next is how long to wait now.
func (b *backoff) next() time.Duration {
	b.base = min(max(2*b.base, BackoffBase), BackoffCeiling)
	return b.base/2 + time.Duration(b.rand.Int64N(int64(b.base/2)+1))
}

// lasted says how long a connection did. Only a long one clears the backoff: two
// executors that throw each other out connect often, and briefly.
func (b *backoff) lasted(d time.Duration) {
	if d >= BackoffCleared {
		b.base = 0
	}
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
