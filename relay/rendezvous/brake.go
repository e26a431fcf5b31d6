package rendezvous

import (
	"sync"
	"time"
)

// An executor pauses handshakes after some that have failed (noise-relay.md, section
// 6), so whoever sends it bad ones shuts out others. The relay does not let one token do
// that: few of its handshakes may be under way at an executor at once, the others wait;
// and when several have failed, the token has to pause, not the executor. Both hold for
// one environment: what its executor does to a token costs the token nothing elsewhere.
type brakes struct {
	mu  sync.Mutex
	all map[tenancy]*brake // those that have failed lately or wait
}

// A tenancy is a token in one environment.
type tenancy struct{ token, env string }

// String is no token's id.
func (t tenancy) String() string { return t.token + "/" + t.env }

type brake struct {
	slots  chan struct{} // one for each handshake under way
	users  int
	failed []time.Time // lately
	until  time.Time   // no handshakes before
	pause  time.Duration
}

func (b *brakes) of(who tenancy) *brake {
	if b.all == nil {
		b.all = map[tenancy]*brake{}
	}
	k := b.all[who]
	if k == nil {
		k = &brake{slots: make(chan struct{}, MaxHandshakes)}
		b.all[who] = k
	}
	return k
}

// enter waits, HandshakeWait at most, until a handshake of who may begin; false if it may
// not.
func (b *brakes) enter(who tenancy) bool {
	timer := time.NewTimer(HandshakeWait)
	defer timer.Stop()
	b.mu.Lock()
	k := b.of(who)
	if time.Now().Before(k.until) {
		b.mu.Unlock()
		return false
	}
	k.users++
	b.mu.Unlock()
	select {
	case k.slots <- struct{}{}:
		b.mu.Lock()
		paused := time.Now().Before(k.until) // meanwhile
		b.mu.Unlock()
		if !paused {
			return true
		}
		<-k.slots
	case <-timer.C:
	}
	b.mu.Lock()
	k.users--
	b.mu.Unlock()
	return false
}

// leave ends a handshake that enter has let begin; paused says that who has to pause from
// now on.
func (b *brakes) leave(who tenancy, failed bool) (paused bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of(who)
	k.users--
	<-k.slots
	if !failed {
		return false
	}
	k.failed = append(recent(k.failed, now), now)
	if len(k.failed) < MaxFailedHandshakes {
		return false
	}
	k.failed = nil
	k.pause = min(max(2*k.pause, FirstPause), LongestPause)
	k.until = now.Add(k.pause)
	return true
}

// paused says that who has to.
func (b *brakes) paused(who tenancy) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.all[who]
	return k != nil && time.Now().Before(k.until)
}

// sweep forgets those that have behaved for long enough.
func (b *brakes) sweep(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for who, k := range b.all {
		if k.users == 0 && len(recent(k.failed, now)) == 0 && now.After(k.until.Add(LongestPause)) {
			delete(b.all, who)
		}
	}
}

func recent(failed []time.Time, now time.Time) []time.Time {
	for len(failed) > 0 && now.Sub(failed[0]) > FailureWindow {
		failed = failed[1:]
	}
	return failed
}
