package arq

import (
	"testing"
	"time"
)

func TestTimeout(t *testing.T) {
	const ms = time.Millisecond
	var r rtt
	want := func(timeout, smoothed time.Duration) {
		t.Helper()
		if r.timeout() != timeout || r.smoothed != smoothed {
			t.Errorf("timeout %v, smoothed %v, want %v, %v", r.timeout(), r.smoothed, timeout, smoothed)
		}
	}
	want(time.Second, 0)
	// (2.2) SRTT <- R, RTTVAR <- R/2, RTO <- SRTT + max(G, 4*RTTVAR).
	r.sample(400 * ms)
	want(1200*ms, 400*ms)
	// (2.3) RTTVAR <- 3/4*200 + 1/4*80 = 170, SRTT <- 7/8*400 + 1/8*480 = 410.
	r.sample(480 * ms)
	want(1090*ms, 410*ms)

	r.expired()
	want(2180*ms, 410*ms)
	r.expired()
	r.expired()
	want(8720*ms, 410*ms)
	r.expired()
	want(10*time.Second, 410*ms)
	for range 1000 { // and no overflow
		r.expired()
	}
	want(10*time.Second, 410*ms)
	if d := r.doubled(1 << 30); d != ResendCeiling {
		t.Errorf("doubled for ever: %v", d)
	}

	r.sample(410 * ms)
	if r.backoff != 0 {
		t.Error("a sample did not end the backoff")
	}
	for range 100 {
		r.sample(time.Microsecond)
	}
	want(200*ms, r.smoothed)
	if r.trip() != granularity {
		t.Errorf("a round trip of %v", r.trip())
	}
	r.sample(-time.Second) // a clock that is not monotonic
	r.sample(time.Hour)
	if r.timeout() != ResendCeiling {
		t.Errorf("timeout of %v after an hour", r.timeout())
	}
}
