package rpc

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/handoff"
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

// outbox queues messages for a Connection and writes them in order. The goroutine that
// sends a message writes it if the Connection is a TryWriter and takes it at once.
type outbox struct {
	conn    Connection
	onError func(error) // told why a write failed; it calls fail
	sent    func(int)   // told the size of each message that was written; may be nil
	account *Account    // holds for each message what its held says

	notifications, replies lane

	mu     sync.Mutex
	queue  handoff.Queue[*buffer]
	sender *handoff.Sender[*buffer]
	err    error // set once nothing can be written any more
}

func newOutbox(conn Connection, account *Account, onError func(error)) *outbox {
	o := &outbox{
		conn: conn, account: account, onError: onError,
		notifications: newLane(protocol.MaxQueuedNotificationBytes),
		replies:       newLane(maxQueuedReplyBytes),
	}
	cfg := handoff.SenderConfig[*buffer]{Lock: &o.mu, Next: o.queue.Pop, Send: o.write}
	if try, ok := conn.(TryWriter); ok {
		cfg.Try = func(msg *buffer) func() { return o.tryWrite(try, msg) }
	}
	o.sender = handoff.NewSender(cfg)
	return o
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
	if o.sender.Busy() {
		msg = msg.trim()
	}
	o.queue.Push(msg)
	o.sender.StartAsync() // Close ends a write that waits
	o.mu.Unlock()
	return nil
}

func (o *outbox) tryWrite(try TryWriter, msg *buffer) (finish func()) {
	rest, err := try.TryWrite(msg.b)
	if rest != nil {
		return func() { o.wrote(msg, rest()) }
	}
	o.wrote(msg, err)
	return nil
}

// write writes msg, unless nothing can be written any more.
func (o *outbox) write(msg *buffer) {
	if o.failed() != nil {
		o.done(msg)
		return
	}
	o.wrote(msg, o.conn.Write(context.Background(), msg.b)) // Close ends a write that waits
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

// fail makes every later send return err.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

func (o *outbox) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// flush waits until all that is queued has been written.
func (o *outbox) flush(ctx context.Context) error {
	if err := o.sender.Wait(ctx); err != nil {
		return err
	}
	return o.failed()
}
