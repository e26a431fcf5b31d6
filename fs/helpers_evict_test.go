package fs

import (
	"context"
	"errors"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// stuckSandbox starts no helper before the service ends.
type stuckSandbox struct{}

func (stuckSandbox) Direct(*protocol.Sandbox) (bool, error)     { return false, nil }
func (stuckSandbox) Open(*protocol.Sandbox, string) (int, bool) { return -1, false }
func (stuckSandbox) Generation() uint64                         { return 0 }
func (stuckSandbox) Start(ctx context.Context, _ *protocol.Sandbox) (rpc.Connection, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// full returns a service whose table of helpers is full of ones that nobody uses. They have
// failed to start if failed is set, and are starting otherwise.
func full(t *testing.T, failed bool) *Service {
	t.Helper()
	s := NewService(nil, Config{Sandbox: stuckSandbox{}})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	table := &s.helpers
	table.byKey, table.retired = make(map[helperKey]*helper), make(map[*helper]struct{})
	for i := range protocol.MaxSandboxHelpers {
		h := &helper{service: s, key: helperKey{byte(i)}, ready: make(chan struct{})}
		if failed {
			h.err = errors.New("no helper")
			close(h.ready)
		}
		table.byKey[h.key] = h
	}
	return s
}

// A helper that could not be started gives its place to another.
func TestEvictFailedHelper(t *testing.T) {
	table := &full(t, true).helpers
	for i := range 2 * protocol.MaxSandboxHelpers {
		h, begun, err := table.get(helperKey{0xff, byte(i)}, nil)
		if i >= protocol.MaxSandboxHelpers {
			if err == nil {
				t.Errorf("helper %d took a place that is in use", i)
			}
			continue
		}
		if err != nil || !begun || h == nil {
			t.Errorf("helper %d: %v, %v", i, begun, err)
		}
	}
}

// A helper that is starting keeps its place.
func TestKeepStartingHelper(t *testing.T) {
	table := &full(t, false).helpers
	if _, _, err := table.get(helperKey{0xff}, nil); err == nil {
		t.Error("a helper that is starting was evicted")
	}
	if n := len(table.byKey); n != protocol.MaxSandboxHelpers {
		t.Errorf("%d helpers are left", n)
	}
}
