package fs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/wsd-dev/wsd/protocol"
)

// memory is what large reads may hold at a time, all connections together: the
// content and its encoded form, until the answer is queued. A read that finds none
// left waits for a while and is then refused.
type memory struct {
	room *semaphore.Weighted
	size int64
	wait time.Duration
}

// smallRead is the size up to which reads are not counted: the places for requests
// bound them well enough.
const smallRead = 1 << 20

func newMemory() *memory {
	return &memory{room: semaphore.NewWeighted(protocol.MaxReadMemoryBytes), size: protocol.MaxReadMemoryBytes, wait: protocol.ReadMemoryWait}
}

// loan is what one read holds.
type loan struct {
	memory *memory
	taken  int64
}

// grow makes the loan cover a content of n bytes.
func (l *loan) grow(ctx context.Context, n int64) error {
	if n <= smallRead {
		return nil
	}
	need := min(n+n/3*4+4, l.memory.size) - l.taken
	if need <= 0 {
		return nil
	}
	if !l.memory.room.TryAcquire(need) {
		waitCtx, cancel := context.WithTimeout(ctx, l.memory.wait)
		defer cancel()
		if err := l.memory.room.Acquire(waitCtx, need); err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("too many large files are being read at the same time; read this one in blocks or try again")
			}
			return context.Cause(ctx)
		}
	}
	l.taken += need
	return nil
}

// release gives everything back.
func (l *loan) release() {
	if l.taken > 0 {
		l.memory.room.Release(l.taken)
		l.taken = 0
	}
}
