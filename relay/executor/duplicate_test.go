package executor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
)

// C-037: two executors with one id, at a rendezvous that closes the older socket. They
// throw each other out, but ever more slowly.
func TestTwoExecutorsWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var current *peer
		w.refuse = func(int, string) error { return nil }
		dial := func(ctx context.Context, url string) (relay.Carrier, error) {
			carrier, err := w.dial(ctx, url)
			if err == nil {
				p := <-w.peers
				w.mu.Lock()
				older := current
				current = p
				w.mu.Unlock()
				if older != nil {
					_ = older.carrier.Close()
				}
			}
			return carrier, err
		}
		for range 2 {
			cfg := w.config()
			cfg.Dial = dial
			w.run(cfg)
		}
		pass(10 * time.Minute)
		at := w.dialled()
		most := 0
		for i := range at {
			n := 0
			for _, e := range at[i:] {
				if e.at-at[i].at < 10*time.Second {
					n++
				}
			}
			if at[i].at > 15*time.Second {
				most = max(most, n)
			}
		}
		if most > 3 {
			t.Errorf("up to %d connections in 10 s", most)
		}
		if len(at) > 70 {
			t.Errorf("%d connections in 10 minutes", len(at))
		}
		t.Logf("%d connections in 10 minutes, at most %d in 10 s after the first seconds", len(at), most)
	})
}

// Two executors with the same keys: the one that was replaced ends and says so, and the
// other stays.
func TestLoserEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register = func(n int) (int, any) {
			if n > 1 {
				return 409, errorBody(registry.CodeReplaced)
			}
			return 200, registration(n)
		}
		w.refuse = func(_ int, url string) error {
			if url == registration(0).URL && len(w.dials) > 2 {
				return refused(409, "unexpected_executor_registration_id")
			}
			return nil
		}
		loser := w.run(w.config())
		old := w.peer()
		w.run(w.config())
		winner := w.peer()
		_ = old.carrier.Close()
		pass(time.Minute)
		if err := loser(); !errors.Is(err, ErrReplaced) {
			t.Errorf("the loser: %v", err)
		}
		winner.roundTrip(winner.open("s", frame.Codex), "hello")
	})
}

// The executor's clock of the wall may jump: nothing is timed by it but the question
// whether somebody is still there.
func TestSlept(t *testing.T) {
	limit := WatchInterval + WatchGap
	now := time.Now()
	wall := func(t time.Time) time.Time { return t.Round(0) }
	for _, test := range []struct {
		name      string
		last, now time.Time
		want      bool
	}{
		{"on time", now, now.Add(WatchInterval), false},
		{"a little late", now, now.Add(limit), false},
		{"stopped", now, now.Add(time.Minute), true},
		{"asleep, or set forward", wall(now), wall(now).Add(time.Hour), true},
		{"set back", wall(now), wall(now).Add(-time.Hour), true},
	} {
		if got := slept(test.last, test.now, limit); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// What a late timer leads to: a question, and a new connection if there is no answer.
func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(context.Context) error
		want   bool // that the connection is kept
		within time.Duration
	}{
		{"answers", func(context.Context) error { return nil }, true, time.Second},
		{"is closed", func(context.Context) error { return fmt.Errorf("closed") }, false, time.Second},
		{"is silent", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, ProbeTimeout + time.Second},
		{"cannot be asked", nil, false, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var carrier relay.Carrier = stuck{}
				if test.answer != nil {
					carrier = probed{answer: test.answer}
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				begun := time.Now()
				// A gap below zero: every tick is too late.
				go func() { ended <- watch(ctx, time.Second, -time.Second, carrier) }()
				select {
				case err := <-ended:
					if test.want || err == nil {
						t.Errorf("ended with %v", err)
					}
					if took := time.Since(begun); took > time.Second+test.within {
						t.Errorf("took %v", took)
					}
				case <-time.After(time.Minute):
					if !test.want {
						t.Error("the connection is kept")
					}
				}
				cancel()
				if test.want {
					if err := <-ended; err != nil {
						t.Errorf("at the end: %v", err)
					}
				}
			})
		})
	}
}
