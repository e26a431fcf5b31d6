package process

import "sync"

// Bounds of the output of one process that waits to be published. They are well
// below the retention of the log, so that nothing is evicted unpublished, and well
// above one chunk, so that the child and the publisher run side by side.
const (
	maxUnpublishedBytes  = 256 << 10
	maxUnpublishedChunks = 4096
)

// window counts the output that was logged and not published yet. A pump does not
// read while it is full, which holds back the child. The zero value is ready.
type window struct {
	mu     sync.Mutex
	bytes  int
	chunks int
	room   chan struct{} // non-nil while a pump waits
}

func (w *window) full() bool {
	return w.bytes >= maxUnpublishedBytes || w.chunks >= maxUnpublishedChunks
}

func (w *window) add(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += size
	w.chunks++
}

func (w *window) remove(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes -= size
	w.chunks--
	// A pump that waits goes on when half of the window is free, not at every chunk.
	if w.room != nil && w.bytes <= maxUnpublishedBytes/2 && w.chunks <= maxUnpublishedChunks/2 {
		close(w.room)
		w.room = nil
	}
}

// wait returns once there is room, false when stop was closed first.
func (w *window) wait(stop <-chan struct{}) bool {
	for {
		w.mu.Lock()
		if !w.full() {
			w.mu.Unlock()
			return true
		}
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-stop:
			return false
		}
	}
}
