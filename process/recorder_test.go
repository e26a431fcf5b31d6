package process

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// recorder is a Notifier for one client, who may be slow or away.
type recorder struct {
	mu     sync.Mutex
	away   bool
	gate   chan struct{} // notifications wait while it is open
	events []string
	bytes  int
}

func (r *recorder) Notify(ctx context.Context, method string, params any) error {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return fmt.Errorf("session is detached: %w", rpc.ErrClosed)
	}
	switch p := params.(type) {
	case *protocol.OutputParams:
		r.bytes += len(p.Chunk)
		r.events = append(r.events, fmt.Sprintf("%d %s %.20s", p.Seq, p.Stream, p.Chunk))
	case *protocol.ExitedParams:
		event := fmt.Sprintf("%d exited %d", p.Seq, p.ExitCode)
		if p.Signal != "" {
			event += " " + p.Signal
		}
		if p.TimedOut {
			event += " timedOut"
		}
		if p.SandboxDenied {
			event += " denied"
		}
		r.events = append(r.events, event)
	case *protocol.ClosedParams:
		r.events = append(r.events, fmt.Sprintf("%d closed", p.Seq))
	default:
		r.events = append(r.events, "unexpected "+method)
	}
	return nil
}

// stall has notifications wait, resume lets them pass.
func (r *recorder) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
}

func (r *recorder) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.gate)
	r.gate = nil
}

func (r *recorder) leave(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// take returns the events since the last take.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := strings.Join(r.events, ", ")
	r.events = nil
	return events
}

// wantEvents compares what a client was told.
func wantEvents(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	if got := r.take(); got != strings.Join(want, ", ") {
		t.Errorf("events are\n\t%s\nwant\n\t%s", got, strings.Join(want, ", "))
	}
}

// start starts a process on a service with a fakeSpawner.
func start(t *testing.T, s *Service, p *protocol.StartParams) *protocol.StartResult {
	t.Helper()
	result, err := s.start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// fakeParams are for a fakeSpawner: the program is there, and is not run.
func fakeParams(id string) *protocol.StartParams {
	return &protocol.StartParams{ProcessID: id, Argv: []string{"sh"}, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"}}
}

func closeService(t *testing.T, s *Service) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
