package executor

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/wsd-dev/wsd/relay/seal"
)

// A gate counts the failed handshakes of one connection. It does not see whose they are,
// so it shuts nobody out for them whom the executor knows: while there were too many, it
// is closed to unknown keys alone, and for that looks at some handshakes a second.
// Failures are forgiven with time; handshakes that succeed do not clear them.
type gate struct {
	failures *rate.Limiter // its tokens are what may still fail
	looks    *rate.Limiter
}

func newGate() gate {
	return gate{
		failures: rate.NewLimiter(rate.Every(ForgiveTime), MaxFailures),
		looks:    rate.NewLimiter(MaxLooks, MaxLooks),
	}
}

// charge counts a failure.
func (g *gate) charge(now time.Time) { g.failures.AllowN(now, 1) }

// closed reports whether only known keys are let in.
func (g *gate) closed(now time.Time) bool { return g.failures.TokensAt(now) < 1 }

// look reports whether a handshake may be looked at while the gate is closed.
func (g *gate) look(now time.Time) bool { return g.looks.AllowN(now, 1) }

// know remembers a harness's key that was let in.
func (t *table) know(key seal.Fingerprint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[seal.Fingerprint]struct{}{}
	}
	if _, is := t.known[key]; !is && len(t.known) >= MaxKnown {
		for other := range t.known { // one by chance
			delete(t.known, other)
			break
		}
	}
	t.known[key] = struct{}{}
}

// knows reports whether a harness with key was let in before.
func (t *table) knows(key seal.Fingerprint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, is := t.known[key]
	return is
}
