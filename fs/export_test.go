package fs

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

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

// NewHostWithMemory makes a Host with little memory for large reads.
func NewHostWithMemory(bytes int64, wait time.Duration) *Host {
	h := NewHost()
	h.memory = &memory{room: semaphore.NewWeighted(bytes), size: bytes, wait: wait}
	return h
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

// Borrow takes bytes of the memory for large reads, once those that were answered have
// given theirs back, and returns a function that gives them back.
func (h *Host) Borrow(bytes int64) func() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.memory.room.Acquire(ctx, bytes); err != nil {
		panic("nothing left to borrow")
	}
	return func() { h.memory.room.Release(bytes) }
}
