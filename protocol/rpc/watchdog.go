package rpc

import (
	"sync"
	"sync/atomic"
	"time"
)

// quickTime is how long a request on the reading goroutine may take before another
// goroutine reads on; twice that at the most. A file system that does not answer, or a
// large file, is no reason not to read the terminate that comes behind.
const quickTime = 2 * time.Millisecond

// A watchdog hands off for requests that have turned out not to be quick. Its timer runs
// only while there are such requests, and is not set for each, which would cost more
// than most of them do. The zero value is ready.
type watchdog struct {
	current atomic.Pointer[Request] // runs on the reading goroutine
	armed   atomic.Bool             // look will be called

	once  sync.Once
	timer *time.Timer
	seen  *Request // by the last look; used by look alone
}

// begin is called before req runs on the reading goroutine.
func (w *watchdog) begin(req *Request) {
	w.current.Store(req)
	w.arm()
}

// end is called after it. By then another may have begun, if req has called Async.
func (w *watchdog) end(req *Request) { w.current.CompareAndSwap(req, nil) }

func (w *watchdog) arm() {
	if !w.armed.CompareAndSwap(false, true) {
		return
	}
	w.once.Do(func() { w.timer = time.AfterFunc(time.Hour, w.look) })
	w.timer.Reset(quickTime)
}

// look hands off for a request that was there at the last look already.
func (w *watchdog) look() {
	req := w.current.Load()
	if req != nil && req == w.seen {
		req.HandOff()
	}
	w.seen = req
	w.armed.Store(false)
	if w.current.Load() != nil { // looked at, or begun just now and not armed for
		w.arm()
	}
}
