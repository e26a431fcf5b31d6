package rendezvous

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// meters hold what the tokens with sockets may still do.
type meters struct {
	mu  sync.Mutex
	all map[string]*meter
}

// A meter is that of one token. A harness without one, in tests, has no bounds.
type meter struct {
	owner *meters
	rate  *rate.Limiter

	// Of meters.mu. harnesses counts their sockets, and each stream of a socket but the first.
	sockets, harnesses, max int
}

// enter counts a socket, a harness's with its stream, unless the token has as many as
// it may.
func (m *meters) enter(t *Token, harness bool) (*meter, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]*meter{}
	}
	x := m.all[t.ID]
	if x == nil {
		x = &meter{owner: m, rate: rate.NewLimiter(limitOf(t), t.Quota.BytesPerSecond)} // with all of its burst
		m.all[t.ID] = x
	}
	if harness {
		if t.Quota.Streams > 0 && x.harnesses >= t.Quota.Streams {
			return nil, false
		}
		x.harnesses++
	}
	x.sockets++
	x.apply(t)
	return x, true
}

// full says that the token has as many sockets as it may.
func (m *meters) full(t *Token) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.all[t.ID]
	return x != nil && t.Quota.Streams > 0 && x.harnesses >= t.Quota.Streams
}

func (m *meters) leave(id string, harness bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.all[id]
	x.sockets--
	if harness {
		x.harnesses--
	}
	if x.sockets == 0 {
		delete(m.all, id)
	}
}

// set brings a token's quota up to date.
func (m *meters) set(t *Token) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.all[t.ID]; x != nil {
		x.apply(t)
	}
}

// more counts a stream that is not its socket's first, unless the token has as many as
// it may.
func (x *meter) more() bool {
	if x == nil {
		return true
	}
	x.owner.mu.Lock()
	defer x.owner.mu.Unlock()
	if x.max > 0 && x.harnesses >= x.max {
		return false
	}
	x.harnesses++
	return true
}

// less takes more back.
func (x *meter) less() {
	if x == nil {
		return
	}
	x.owner.mu.Lock()
	defer x.owner.mu.Unlock()
	x.harnesses--
}

func limitOf(t *Token) rate.Limit {
	if t.Quota.BytesPerSecond == 0 {
		return rate.Inf
	}
	return rate.Limit(t.Quota.BytesPerSecond)
}

func (x *meter) apply(t *Token) {
	x.max = t.Quota.Streams
	limit := limitOf(t)
	if x.rate.Limit() != limit {
		x.rate.SetLimit(limit)
		x.rate.SetBurst(t.Quota.BytesPerSecond)
	}
}

// charge takes n bytes that have passed the other way: they are not held up, but what is
// read next is. The debt is bounded, so that pings are still answered in time.
func (x *meter) charge(n int) {
	if x.rate.Limit() == rate.Inf || x.rate.Tokens() < -MaxDebt.Seconds()*float64(x.rate.Limit()) {
		return
	}
	x.rate.ReserveN(time.Now(), n)
}

// pass waits until n more bytes may pass: the socket that they came over is not read
// meanwhile, and its TCP holds its peer up.
func (x *meter) pass(ctx context.Context, n int) error {
	if x.rate.Limit() == rate.Inf {
		return nil
	}
	return x.rate.WaitN(ctx, n)
}
