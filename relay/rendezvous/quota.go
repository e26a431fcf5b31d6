package rendezvous

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// meters hold what the tokens with sockets may still do.
type meters struct {
	mu  sync.Mutex
	all map[string]*account // by token id
}

// An account is that of one token.
type account struct {
	owner *meters
	id    string

	// Of meters.mu. harnesses counts their sockets, and each stream of a socket but the first.
	sockets, harnesses, max int
	envs                    map[string]*meter

	queued atomic.Int64 // bytes that wait for its harnesses
}

// A meter is that of a token in one environment: what an executor sends to a token does
// not hold it up elsewhere. A harness without one, in tests, has no bounds.
type meter struct {
	*account
	env   string
	users int // of meters.mu
	rate  *rate.Limiter
}

// enter counts a socket, a harness's with its stream, unless the token has as many as
// it may.
func (m *meters) enter(t *Token, env string, harness bool) (*meter, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]*account{}
	}
	a := m.all[t.ID]
	if harness && a != nil && t.Quota.Streams > 0 && a.harnesses >= t.Quota.Streams {
		return nil, false
	}
	if a == nil {
		a = &account{owner: m, id: t.ID, envs: map[string]*meter{}}
		m.all[t.ID] = a
	}
	x := a.envs[env]
	if x == nil {
		x = &meter{account: a, env: env, rate: rate.NewLimiter(limitOf(t), t.Quota.BytesPerSecond)} // with all of its burst
		a.envs[env] = x
	}
	if harness {
		a.harnesses++
	}
	a.sockets++
	x.users++
	a.apply(t)
	return x, true
}

// full says that the token has as many sockets as it may.
func (m *meters) full(t *Token) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.all[t.ID]
	return x != nil && t.Quota.Streams > 0 && x.harnesses >= t.Quota.Streams
}

// leave takes enter back.
func (x *meter) leave(harness bool) {
	m := x.owner
	m.mu.Lock()
	defer m.mu.Unlock()
	x.sockets--
	if harness {
		x.harnesses--
	}
	if x.users--; x.users == 0 {
		delete(x.envs, x.env)
	}
	if x.sockets == 0 {
		delete(m.all, x.id)
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

func (a *account) apply(t *Token) {
	a.max = t.Quota.Streams
	limit := limitOf(t)
	for _, x := range a.envs {
		if x.rate.Limit() != limit {
			x.rate.SetLimit(limit)
			x.rate.SetBurst(t.Quota.BytesPerSecond)
		}
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
