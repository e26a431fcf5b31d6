package stream

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/bufpool"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// A Source is what a stream is made of. One goroutine at a time uses it.
type Source struct {
	// Next returns the next item, to be encoded before it is called again; io.EOF after
	// the last one.
	Next func(ctx context.Context) (any, error)
	// Close is called once, after the last Next. err is why the rest is not wanted, nil at
	// the end.
	Close func(err error)
	// Describe is how the reader is told of an error of Next; nil tells its text alone.
	Describe func(err error) *protocol.NamedError
	// Eager has items sent as soon as they are there. Others wait for a full message, or
	// for the end, or until there is no more credit.
	Eager bool
	// Ready reports whether Next has the next item at hand: those of an Eager Source that
	// has are sent together. nil means that it never has.
	Ready func() bool
}

// Out is a stream that this end writes.
type Out struct {
	set  *Set
	id   string
	done chan struct{}
	src  Source
	ctx  context.Context // ended by Stop
	stop context.CancelCauseFunc

	// Of the goroutine that sends.
	batch []byte // the text of items that are to be sent, without the last bracket
	taken []byte // memory from bufpool.Take that the batch began in or was moved to, nil for none
	room  int    // the length of the batch before it
	ended bool   // Next has returned an error, or io.EOF

	mu      sync.Mutex
	changed sync.Cond
	state   outState
	credit  int64
	stopped bool
	tell    bool  // the reader of the end, although it was stopped
	err     error // why it ended early
}

type outState uint8

const (
	reserved outState = iota
	ready             // has a Source
	flowing           // a goroutine works on it
	over
)

func newOut(s *Set, id string, credit int64) *Out {
	o := &Out{set: s, id: id, done: make(chan struct{}), credit: min(credit, protocol.MaxStreamCredit)}
	o.changed.L = &o.mu
	o.ctx, o.stop = context.WithCancelCause(s.life)
	return o
}

// Ref names the stream in a result.
func (o *Out) Ref() protocol.StreamRef { return protocol.StreamRef{StreamID: o.id} }

// Param names the stream in parameters.
func (o *Out) Param() protocol.StreamParam { return protocol.StreamParam{StreamID: &o.id} }

// Done is closed when the Source has been closed, or the Out released.
func (o *Out) Done() <-chan struct{} { return o.done }

// Stopped reports whether Stop has been called, or the reader has cancelled.
func (o *Out) Stopped() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stopped
}

// Err is why the stream ended early: an error of the Source, or what Stop was called
// with. It is nil before Done, and after all was sent.
func (o *Out) Err() error {
	select {
	case <-o.done:
	default:
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Release gives back a reservation that there is no Source for.
func (o *Out) Release() { o.Stop(ErrCancelled) }

// Send gives the stream its Source. Items are sent behind the answer to the request that
// ctx belongs to, or at once outside of one.
func (o *Out) Send(ctx context.Context, src Source) {
	o.mu.Lock()
	closing := o.state != reserved // the connection has ended
	if !closing {
		o.src, o.state = src, ready
	}
	o.mu.Unlock()
	if closing {
		src.close(ErrClosed)
		return
	}
	rpc.AfterReply(ctx, func() {
		o.mu.Lock()
		if o.state != ready {
			o.mu.Unlock()
			return
		}
		o.state = flowing
		o.mu.Unlock()
		if !o.set.spawn(o.run) {
			o.finish(ErrClosed)
		}
	})
}

// Stop has no more sent, to a reader that waits for no more. It does not wait: Done does.
func (o *Out) Stop(err error) { o.halt(err, false) }

// Abort is Stop for a reader that waits: it is told that the stream ended early, and why.
func (o *Out) Abort(err error) { o.halt(err, true) }

func (o *Out) halt(err error, tell bool) {
	o.mu.Lock()
	if o.stopped || o.state == over {
		o.mu.Unlock()
		return
	}
	o.stopped, o.tell = true, tell
	if o.err == nil {
		o.err = err
	}
	state := o.state
	if state != flowing {
		o.state = over
	}
	o.mu.Unlock()
	o.stop(err)
	o.changed.Broadcast()
	if state != flowing {
		o.finish(err)
	}
}

func (o *Out) addCredit(n int64) {
	o.mu.Lock()
	o.credit = min(o.credit+min(n, protocol.MaxStreamCredit), protocol.MaxStreamCredit)
	o.mu.Unlock()
	o.changed.Broadcast()
}

// run reads the Source and sends what it gives.
func (o *Out) run() {
	complete := o.send()
	o.mu.Lock()
	err, tell := o.err, o.tell
	o.mu.Unlock()
	o.finish(err)
	if complete || tell {
		end := protocol.StreamEndParams{StreamID: o.id}
		if err != nil {
			end.Error = o.describe(err)
		}
		_ = o.set.notifier.Notify(o.set.life, protocol.NotifyStreamEnd, &end) // without a connection nobody waits for it
	}
}

func (o *Out) describe(err error) *protocol.NamedError {
	if o.src.Describe != nil {
		return o.src.Describe(err)
	}
	return wireError(err)
}

// finish closes the Source and forgets the stream: whoever sees its end may open another.
func (o *Out) finish(err error) {
	o.mu.Lock()
	o.state = over
	o.mu.Unlock()
	o.stop(ErrCancelled) // if nobody has
	o.set.forgetOut(o)
	o.src.close(err)
	close(o.done)
}

func (s *Source) close(err error) {
	if s.Close != nil {
		s.Close(err)
	}
}

// send sends batches until the Source has ended, which is true, or nothing more is
// wanted.
func (o *Out) send() bool {
	for !o.ended {
		if !o.awaitCredit() {
			return false
		}
		for o.wants() {
			o.take()
		}
		if len(o.batch) == 0 {
			break
		}
		batch := append(o.batch, ']')
		if !o.spend(int64(len(batch))) {
			return false
		}
		items := protocol.StreamItemsParams{StreamID: o.id, Items: batch, Bytes: int64(len(batch))}
		if err := o.set.notifier.Notify(o.ctx, protocol.NotifyStreamItems, &items); err != nil {
			o.Stop(err)
			return false
		}
		o.reuse(batch)
	}
	return !o.Stopped()
}

// keptBatchBytes is the most memory for a batch that a stream keeps while it waits for its
// next item. There may be many streams that wait for long.
const keptBatchBytes = 4 << 10

// reuse takes the memory of a batch that was sent. A large one that has outgrown what was taken for it
// is not kept: there would be one more with each such batch.
func (o *Out) reuse(batch []byte) {
	o.batch, o.room = batch[:0], len(batch)
	if cap(batch) > keptBatchBytes {
		bufpool.Keep(o.taken)
		o.batch, o.taken = nil, nil
	}
}

// awaitCredit is false when nothing more is wanted.
func (o *Out) awaitCredit() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.stopped && o.credit <= 0 {
		o.changed.Wait()
	}
	return !o.stopped
}

// spend is false when nothing more is wanted.
func (o *Out) spend(n int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.credit -= n
	return !o.stopped
}

// wants reports whether another item is to go into the batch before that is sent.
func (o *Out) wants() bool {
	if len(o.batch) == 0 {
		return !o.ended
	}
	if o.ended || len(o.batch) >= protocol.StreamBatchBytes {
		return false
	}
	o.mu.Lock()
	full := o.credit <= int64(len(o.batch))
	o.mu.Unlock()
	return !full && (!o.src.Eager || o.src.Ready != nil && o.src.Ready())
}

// take puts the next item into the batch.
func (o *Out) take() {
	item, err := o.next()
	if err == nil {
		err = o.append(item)
	}
	if err == nil {
		return
	}
	o.ended = true
	o.mu.Lock()
	defer o.mu.Unlock()
	if !errors.Is(err, io.EOF) && o.err == nil {
		o.err = err
	}
}

// next is Source.Next, whose panic is an error as that of a request is.
func (o *Out) next() (item any, err error) {
	defer func() {
		if p := recover(); p != nil {
			o.set.cfg.Logger.Error("stream panicked", "stream", o.id, "panic", p, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return o.src.Next(o.ctx)
}

var errPanicked = errors.New("internal error while reading a stream; the log has the details")

// itemFrame is room for the members of an item that wire.SizeHint does not count, most of the time.
const itemFrame = 512

// makeRoom moves the batch to larger memory if an item would outgrow what it is in. Memory that the
// encoding makes is not used again.
func (o *Out) makeRoom(item any) {
	need := len(o.batch) + wire.SizeHint(item) + itemFrame
	if len(o.batch) == 0 {
		need = max(need, o.room+o.room/4) // the next one may be longer
	}
	if need <= max(keptBatchBytes, cap(o.batch)) {
		return
	}
	// A batch ends with the item with which it has StreamBatchBytes: most fit in a quarter more.
	need = max(need, min(2*len(o.batch), protocol.StreamBatchBytes*5/4))
	larger := append(bufpool.Take(bufpool.Size(need)), o.batch...)
	bufpool.Keep(o.taken)
	o.batch, o.taken = larger, larger[:0]
}

func (o *Out) append(item any) error {
	before, lead := len(o.batch), byte(',')
	if before == 0 {
		lead = '['
	}
	o.makeRoom(item)
	batch, err := wire.Append(append(o.batch, lead), item)
	if err != nil {
		o.batch = o.batch[:before]
		return err
	}
	o.batch = batch
	return nil
}
