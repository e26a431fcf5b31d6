package mirror

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a side could not write is tried again after a pause that grows as long as something is left.
func TestL1UnwrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Retries
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			r.looked(true)
			time.Sleep(pause / 2)
			r.looked(true) // since something has stirred
			if got := time.Until(r.TriesAgain()); got != pause/2 {
				t.Errorf("it is tried again after %v, want %v", got, pause/2)
			}
			time.Sleep(pause / 2)
		}
		r.looked(false)
		if at := r.TriesAgain(); !at.IsZero() {
			t.Errorf("something is tried again at %v", at)
		}
		r.looked(true)
		if got := time.Until(r.TriesAgain()); got != time.Second {
			t.Errorf("it is tried again after %v", got)
		}
	})
}

// A mirror does not try what another one over the connection has tried, and knows when it is tried again.
func TestL1RetriesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, remote := newSmall(t, Config{Retries: &Retries{}})
		remote.room = 20
		w.local.do("write /one 1", "write /big "+strings.Repeat("x", 300))
		w.sync()
		calls := remote.calls
		w.restart()
		w.sync()
		if remote.calls != calls {
			t.Errorf("it was tried %d times more", remote.calls-calls)
		}
		if got := time.Until(w.m.TriesAgain()); got != time.Second {
			t.Errorf("it is tried again after %v", got)
		}
		remote.room = 1 << 20
		time.Sleep(time.Second)
		w.sync()
		w.same()
	})
}
