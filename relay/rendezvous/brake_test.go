package rendezvous

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBrakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b brakes
		for range MaxHandshakes {
			if !b.enter(tenancy{"a", "lab"}) {
				t.Fatal("not let in")
			}
		}
		// One more waits, another token does not.
		entered := make(chan bool)
		go func() { entered <- b.enter(tenancy{"a", "lab"}) }()
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("too many are under way")
		default:
		}
		if !b.enter(tenancy{"b", "lab"}) {
			t.Error("another token has to wait")
		}
		if b.leave(tenancy{"b", "lab"}, false) || b.leave(tenancy{"a", "lab"}, false) {
			t.Error("a success makes a token pause")
		}
		if !<-entered {
			t.Error("the one that waited is not let in")
		}
		for range MaxHandshakes {
			b.leave(tenancy{"a", "lab"}, false)
		}
		// What waits for too long is not let in.
		for range MaxHandshakes {
			b.enter(tenancy{"a", "lab"})
		}
		if b.enter(tenancy{"a", "lab"}) {
			t.Error("let in, and nobody left")
		}
		for range MaxHandshakes {
			b.leave(tenancy{"a", "lab"}, false)
		}
	})
}

func TestBrakesPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b brakes
		fail := func() (paused bool) {
			t.Helper()
			if !b.enter(tenancy{"a", "lab"}) {
				t.Fatal("not let in")
			}
			return b.leave(tenancy{"a", "lab"}, true)
		}
		for pause := FirstPause; pause <= LongestPause; pause *= 2 {
			for i := range MaxFailedHandshakes {
				if got := fail(); got != (i == MaxFailedHandshakes-1) {
					t.Fatalf("after %d failures the token pauses: %v", i+1, got)
				}
			}
			time.Sleep(pause - time.Millisecond)
			if !b.paused(tenancy{"a", "lab"}) || b.enter(tenancy{"a", "lab"}) {
				t.Errorf("the pause is shorter than %v", pause)
			}
			time.Sleep(2 * time.Millisecond)
			if b.paused(tenancy{"a", "lab"}) {
				t.Errorf("the pause is longer than %v", pause)
			}
		}
		// Failures far apart are no flood.
		for range 3 * MaxFailedHandshakes {
			if fail() {
				t.Error("a token pauses for failures far apart")
			}
			time.Sleep(FailureWindow)
		}
		time.Sleep(2 * LongestPause)
		b.sweep(time.Now())
		if len(b.all) != 0 {
			t.Error("a token that behaves is not forgotten")
		}
	})
}
