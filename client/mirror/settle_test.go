package mirror

import (
	"context"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
)

// A settling Workspace counts how often it was settled.
type settling struct {
	changes.Workspace
	n int
}

func (s *settling) Settle(ctx context.Context) error {
	s.n++
	return s.Workspace.Settle(ctx)
}

// A synchronisation settles the directory once for each tick, and a Sync that LocalPending has
// asked for not once more before its first.
func TestSettles(t *testing.T) {
	w := newWorld(t, Config{})
	s := &settling{Workspace: w.local.ws}
	w.local.ws = s
	w.restart()
	for _, step := range []struct {
		do      string
		pending bool
		settles int
	}{
		{do: "write /f one", settles: 2},
		{settles: 1},
		{do: "write /f two", pending: true, settles: 2},
		{pending: true, settles: 2}, // it has found nothing
	} {
		if step.do != "" {
			w.local.do(step.do)
		}
		s.n = 0
		if step.pending {
			if got, err := w.m.LocalPending(t.Context()); err != nil || got != (step.do != "") {
				t.Errorf("pending: %v, %v", got, err)
			}
		}
		w.sync()
		if s.n != step.settles {
			t.Errorf("%q: settled %d times, want %d", step.do, s.n, step.settles)
		}
		w.same()
	}
}
