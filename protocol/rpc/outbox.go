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

// outbox queues messages for a Connection and writes them in order. What can be written
// at once is, by whoever sends it, where the Connection can tell; it has a goroutine
// only while there is more to write.
type outbox struct {
	conn    Connection
	try     TryWriter   // conn, if it is one
	onError func(error) // told why a write failed; it calls fail
	sent    func(int)   // told the size of each message that was written; may be nil
	account *Account    // holds for each message what its held says

	notifications, replies lane

	mu       sync.Mutex
	queue    []*buffer
	draining bool
	idle     chan struct{} // closed when draining ends; nil unless somebody waits for that
	err      error         // set once nothing can be written any more
}

func newOutbox(conn Connection, account *Account, onError func(error)) *outbox {
	try, _ := conn.(TryWriter)
	return &outbox{
		conn: conn, try: try, account: account, onError: onError,
		notifications: newLane(protocol.MaxQueuedNotificationBytes),
		replies:       newLane(maxQueuedReplyBytes),
	}
}

// send queues msg once its lane has room. It owns msg from then on.
func (o *outbox) send(ctx context.Context, l lane, msg *buffer) error {
	msg.lane, msg.weight = l, l.weigh(msg)
	if err := l.room.Acquire(ctx, msg.weight); err != nil {
		o.account.Give(msg.held)
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
	if o.draining {
		o.queue = append(o.queue, msg.trim())
		o.mu.Unlock()
		return nil
	}
	o.draining = true
	o.mu.Unlock()

	finish := func() error { return o.conn.Write(context.Background(), msg.b) } // Close ends a write that waits
	if o.try != nil {
		var err error
		if finish, err = o.try.TryWrite(msg.b); finish == nil {
			o.wrote(msg, err)
			if o.rest() {
				return nil
			}
		}
	}
	go func() { // owned by the outbox; ends when the queue is empty or Close unblocks Write
		if finish != nil {
			o.wrote(msg, finish())
		}
		o.drain()
	}()
	return nil
}

// rest ends the draining if nothing is queued, or nothing can be written any more.
func (o *outbox) rest() bool {
	o.mu.Lock()
	if len(o.queue) > 0 && o.err == nil {
		o.mu.Unlock()
		return false
	}
	left := o.queue
	o.queue, o.draining = nil, false
	if o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
	o.mu.Unlock()
	for _, msg := range left {
		o.done(msg)
	}
	return true
}

// wrote is called when msg has been written, or could not be.
func (o *outbox) wrote(msg *buffer, err error) {
	if err == nil && o.sent != nil {
		o.sent(len(msg.b))
	}
	o.done(msg)
	if err != nil {
		o.onError(err)
	}
}

func (o *outbox) done(msg *buffer) {
	msg.lane.room.Release(msg.weight)
	o.account.Give(msg.held)
	msg.recycle()
}

func (o *outbox) drain() {
	for {
		if o.rest() {
			return
		}
		o.mu.Lock() // nobody else takes from the queue
		msg := o.queue[0]
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.mu.Unlock()

		o.wrote(msg, o.conn.Write(context.Background(), msg.b)) // Close ends a write that waits
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
	if !o.draining {
		defer o.mu.Unlock()
		return o.err
	}
	if o.idle == nil {
		o.idle = make(chan struct{})
	}
	idle := o.idle
	o.mu.Unlock()
	select {
	case <-idle:
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
