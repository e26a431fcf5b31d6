package rendezvous

import (
	"testing"
	"testing/synctest"
	"time"
)

// A token's bytes count both ways; what passes the other way is not held up, but what is
// read next is, for a bounded time.
func TestBytesCountBothWays(t *testing.T) {
	const second = MaxFrame
	for name, c := range map[string]struct {
		charged int // frames of a second each
		want    time.Duration
	}{
		"nothing":    {0, 0}, // the burst pays for it
		"the burst":  {1, time.Second},
		"more":       {4, 4 * time.Second},
		"far beyond": {1000, MaxDebt + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m meters
				x, ok := m.enter(&Token{ID: "t", Quota: Quota{BytesPerSecond: second}}, "lab", true)
				if !ok {
					t.Fatal("not let in")
				}
				for range c.charged {
					x.charge(second)
				}
				began := time.Now()
				if err := x.pass(t.Context(), second); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > c.want+time.Millisecond || c.want < MaxDebt && took < c.want-time.Millisecond || c.want > MaxDebt && took < MaxDebt {
					t.Errorf("took %v, want %v", took, c.want)
				}
			})
		})
	}
}

// Streams count, over however many sockets.
func TestStreamsOverOneSocketCount(t *testing.T) {
	e, alice, _, _ := routing()
	var m meters
	token := &Token{ID: "a", Role: RoleHarness, Quota: Quota{Streams: 3}}
	alice.meter, _ = m.enter(token, "lab", true)
	open := func(stream string) bool { return e.route(alice, glanceOf(stream, kindResume, "codex")) }
	for i, stream := range []string{"1", "2", "3", "4"} {
		if got := open(stream); got != (i < 3) {
			t.Errorf("stream %s: %v", stream, got)
		}
	}
	if !m.full(token) {
		t.Error("there is room for another socket")
	}
	e.route(alice, glanceOf("2", kindReset, "codex"))
	if m.full(token) || !open("5") || open("6") {
		t.Error("a stream that has ended still counts, or more do not")
	}
	for _, stream := range []string{"1", "3", "5"} {
		e.route(alice, glanceOf(stream, kindReset, "codex"))
	}
	if alice.meter.harnesses != 1 {
		t.Errorf("a socket without a stream counts as %d", alice.meter.harnesses)
	}
}
