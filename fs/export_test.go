package fs

import (
	"context"
	"errors"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// ServeConfinedOn is ServeConfined on a connection of the test's.
func ServeConfinedOn(ctx context.Context, conn rpc.Connection) error {
	err := serveConfined(ctx, conn)
	if errors.Is(err, rpc.ErrClosed) {
		return nil
	}
	return err
}

// KeepHelpers makes idle helpers stay, so that a busy machine does not change which
// of them there are.
func (h *Host) KeepHelpers() *Host {
	h.helperIdle = time.Hour
	return h
}

// Locks is how many entries are locked or waited for.
func (h *Host) Locks() int {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return len(h.locks.held)
}
