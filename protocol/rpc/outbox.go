package rpc

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/wsd-dev/wsd/protocol"
)

// maxQueuedReplyBytes bounds the answers that wait to be written; at the limit the
// next one's handler waits.
const maxQueuedReplyBytes = 8 << 20

// lane is a kind of outgoing message with a budget of its own, so that a flood of
// notifications cannot keep answers from being queued.
type lane struct {
	room  *semaphore.Weighted
	limit int64
}

func newLane(limit int64) lane { return lane{semaphore.NewWeighted(limit), limit} }

func (l lane) weigh(msg *buffer) int64 { return min(int64(len(msg.b)), l.limit) }

// outbox queues messages for a Connection and writes them in order. It has a
// goroutine only while there is something to write.
type outbox struct {
	conn    Connection
	onError func(error) // told why a write failed; it calls fail

	notifications, replies lane

	mu       sync.Mutex
	queue    []*buffer
	draining bool
	idle     chan struct{} // closed when draining ends; nil when not draining
	err      error         // set once nothing can be written any more
}

func newOutbox(conn Connection, onError func(error)) *outbox {
	return &outbox{
		conn: conn, onError: onError,
		notifications: newLane(protocol.MaxQueuedNotificationBytes),
		replies:       newLane(maxQueuedReplyBytes),
	}
}

// send queues msg once its lane has room. It owns msg from then on.
func (o *outbox) send(ctx context.Context, l lane, msg *buffer) error {
	msg.lane, msg.weight = l, l.weigh(msg)
	if err := l.room.Acquire(ctx, msg.weight); err != nil {
		msg.recycle()
		return context.Cause(ctx)
	}
	return o.enqueue(msg)
}

// trySend is send for callers that must not wait; false when there is no room, and
// the buffer is then still the caller's.
func (o *outbox) trySend(l lane, msg *buffer) (bool, error) {
	msg.lane, msg.weight = l, l.weigh(msg)
	if !l.room.TryAcquire(msg.weight) {
		return false, nil
	}
	return true, o.enqueue(msg)
}

func (o *outbox) enqueue(msg *buffer) error {
	o.mu.Lock()
	if err := o.err; err != nil {
		o.mu.Unlock()
		o.done(msg)
		return err
	}
	o.queue = append(o.queue, msg)
	start := !o.draining
	if start {
		o.draining = true
		o.idle = make(chan struct{})
	}
	o.mu.Unlock()
	if start {
		go o.drain() // owned by the outbox; ends when the queue is empty or Close unblocks Write
	}
	return nil
}

func (o *outbox) done(msg *buffer) {
	msg.lane.room.Release(msg.weight)
	msg.recycle()
}

func (o *outbox) drain() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 || o.err != nil {
			left := o.queue
			o.queue, o.draining = nil, false
			close(o.idle)
			o.mu.Unlock()
			for _, msg := range left {
				o.done(msg)
			}
			return
		}
		msg := o.queue[0]
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.mu.Unlock()

		err := o.conn.Write(context.Background(), msg.b) // Close ends a write that waits
		o.done(msg)
		if err != nil {
			o.onError(err)
		}
	}
}

// fail makes every later send return err.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

// flush waits until all that is queued has been written.
func (o *outbox) flush(ctx context.Context) error {
	o.mu.Lock()
	idle, err := o.idle, o.err
	if !o.draining {
		idle = nil
	}
	o.mu.Unlock()
	if idle == nil {
		return err
	}
	select {
	case <-idle:
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
