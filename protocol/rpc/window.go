package rpc

import (
	"context"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

// window counts the requests that have no answer queued yet. While there are too
// many, or they are too large together, nothing more is read.
type window struct {
	account *Account // of what the requests hold

	mu    sync.Mutex
	count int
	bytes int
	room  chan struct{} // non-nil while somebody waits
}

func (w *window) add(size int) {
	w.account.Force(int64(size))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.bytes += size
}

func (w *window) remove(size int) {
	w.account.Give(int64(size))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	w.bytes -= size
	if w.room != nil && !w.full() {
		close(w.room)
		w.room = nil
	}
}

// full is called with the mutex.
func (w *window) full() bool {
	return w.count >= protocol.MaxRequestsInFlight || w.bytes >= protocol.MaxRequestBytesInFlight
}

// isFull says that wait would wait.
func (w *window) isFull() bool {
	if !w.account.within() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full()
}

// wait returns once the window is open, and its requests hold no more memory than the
// account allows.
func (w *window) wait(ctx context.Context, closed <-chan struct{}) error {
	if err := w.account.settle(ctx, closed); err != nil {
		return err
	}
	w.mu.Lock()
	if !w.full() {
		w.mu.Unlock()
		return nil
	}
	if w.room == nil {
		w.room = make(chan struct{})
	}
	room := w.room
	w.mu.Unlock()
	select {
	case <-room:
		return nil
	case <-closed:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
