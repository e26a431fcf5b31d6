package rendezvous_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// ends fails the test if c does not end within a few heartbeats.
func ends(t *testing.T, c relay.Carrier) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*rendezvous.Heartbeat)
	defer cancel()
	if _, err := c.Read(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
}

// An executor that attaches to another node has left the first, with its harnesses.
func TestExecutorMovesToAnotherNode(t *testing.T) {
	t.Parallel() // it waits
	state := rendezvous.NewMemory()
	first, second := newWorld(t, state), newWorld(t, state)
	reg, before := first.attach(identity(t))
	harness, err := relay.Dial(t.Context(), first.connect(identity(t)).URL, relay.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer harness.Close()
	ws := func(w *world) string { return "ws" + strings.TrimPrefix(w.url, "http") }
	after, err := relay.Dial(t.Context(), ws(second)+strings.TrimPrefix(reg.URL, ws(first)), relay.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	ends(t, before)
	ends(t, harness)
	for _, w := range []*world{first, second} {
		if url := w.connect(identity(t)).URL; !strings.HasPrefix(url, ws(second)) {
			t.Errorf("harnesses are sent to %s", url)
		}
	}
}

// What could not be written when an executor left, because the State was away, is
// written when it is back.
func TestClaimIsTakenBackLater(t *testing.T) {
	t.Parallel() // it waits
	state := &failing{State: rendezvous.NewMemory()}
	w := newWorld(t, state)
	_, executor := w.attach(identity(t))
	w.connect(identity(t))
	state.fails.Store(true)
	_ = executor.Close()
	w.audited("detach")
	state.fails.Store(false)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		status, err := rendezvous.Status(t.Context(), state)
		if err != nil {
			t.Fatal(err)
		}
		if !status.Environments[0].Attached {
			return
		}
		if time.Since(began) > 15*rendezvous.Heartbeat {
			t.Fatal("the executor still counts as attached")
		}
	}
}
