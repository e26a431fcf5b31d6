package stream

import (
	"context"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// In is a stream that this end reads.
type In struct {
	set    *Set
	id     string
	window int64
	early  bool // Receive has not been called; under the lock of set

	// Of the goroutine that calls Next.
	now      arrival       // what is being taken
	elements wire.Elements // of it
	taken    int64         // of messages before, for which no credit was given yet

	mu      sync.Mutex
	credit  int64 // that the writer has left
	queue   []arrival
	over    bool
	closed  bool
	err     error         // why it ended early
	changed chan struct{} // non-nil while Next waits
}

// arrival is what has arrived in one message, or in several short ones.
type arrival struct {
	items wire.List
	size  int64 // of the credit that they took
	lent  bool  // items are in memory from bufpool.Take
}

// shortArrival is how much is put together of messages that are short. A message of few
// bytes takes many in the queue.
const shortArrival = 4 << 10

// written is a stream whose items are all there.
func written(s *Set, items wire.List) *In {
	return &In{set: s, queue: []arrival{{items: items}}, over: true}
}

// Next returns the text of the next item, which is valid until it is called again. The
// error is io.EOF after the last one, and a *protocol.NamedError when the writer says why there are no
// more, or has broken the rules.
func (in *In) Next(ctx context.Context) ([]byte, error) {
	for {
		if item, ok := in.elements.Next(); ok && !in.isClosed() {
			return item, nil
		}
		in.taken += in.now.size
		in.now.giveUp()
		in.elements = wire.Elements{} // what it has read may be in that memory
		if err := in.giveBack(ctx); err != nil {
			return nil, err
		}
		next, err := in.await(ctx)
		if err != nil {
			return nil, err
		}
		in.now, in.elements = next, next.items.Elements()
	}
}

func (in *In) isClosed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closed
}

// giveBack gives the writer credit for what was taken, in halves of the window.
func (in *In) giveBack(ctx context.Context) error {
	in.mu.Lock()
	if in.over || in.taken < (in.window+1)/2 {
		in.mu.Unlock()
		return nil
	}
	n := in.taken
	in.credit += n // before the writer knows
	in.mu.Unlock()
	if err := in.grant(ctx, n); err != nil { // Next may be called again
		in.mu.Lock()
		defer in.mu.Unlock()
		in.credit -= n
		return err
	}
	in.taken = 0
	return nil
}

func (in *In) grant(ctx context.Context, n int64) error {
	return in.set.notifier.Notify(ctx, protocol.NotifyStreamCredit, &protocol.StreamCreditParams{StreamID: in.id, Bytes: n})
}

// await returns the items that come next.
func (in *In) await(ctx context.Context) (arrival, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		switch {
		case in.closed:
			return arrival{}, ErrCancelled
		case len(in.queue) > 0:
			next := in.queue[0]
			in.queue[0] = arrival{}
			in.queue = in.queue[1:]
			return next, nil
		case in.over && in.err != nil:
			return arrival{}, in.err
		case in.over:
			return arrival{}, io.EOF
		}
		if in.changed == nil {
			in.changed = make(chan struct{})
		}
		changed := in.changed
		in.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		in.mu.Lock()
		if err != nil {
			return arrival{}, err
		}
	}
}

// Close gives up what is left. err is told to a writer that is not done; nil says nothing.
func (in *In) Close(err error) {
	in.mu.Lock()
	tell := !in.over && !in.closed
	in.closed, in.over, in.queue = true, true, nil
	in.wake()
	in.mu.Unlock()
	if tell {
		in.set.forgetIn(in)
		in.tell(err)
	}
}

// tell has the writer stop. It waits while there is no room to tell it, at most as long
// as the connection lives.
func (in *In) tell(err error) {
	_ = in.set.notifier.Notify(in.set.life, protocol.NotifyStreamCancel, &protocol.StreamCancelParams{StreamID: in.id, Error: wireError(err)})
}

// arrived takes a message of items. It never waits.
func (in *In) arrived(items wire.BorrowedList) {
	in.mu.Lock()
	without := in.credit <= 0
	taken := !in.over && !without && len(items) <= in.set.cfg.MaxItemsBytes
	if taken {
		in.credit -= int64(len(items))
		in.keep(items)
		in.wake()
	}
	in.mu.Unlock()
	switch {
	case taken:
	case without:
		in.fault("stream/items was sent without credit")
	default:
		in.fault("stream/items is too long")
	}
}

// fault ends a stream whose writer breaks the rules, unless it is over. It never waits.
func (in *In) fault(message string) {
	fault := &protocol.NamedError{Code: CodeProtocol, Message: message}
	in.mu.Lock()
	over := in.over
	if !over {
		in.over, in.err, in.queue = true, fault, nil
		in.wake()
	}
	in.mu.Unlock()
	if over {
		return
	}
	in.set.forgetIn(in)
	in.set.cfg.Logger.Warn("the other end breaks the rules of streams", "stream", in.id, "err", message)
	in.set.spawn(func() { in.tell(fault) }) // not on the reading goroutine
}

// keep puts items into the queue. in.mu is held.
func (in *In) keep(items wire.BorrowedList) {
	if n := len(in.queue); n > 0 {
		last := &in.queue[n-1]
		if len(last.items)+len(items) <= shortArrival {
			last.items, last.size = last.items.Join(wire.List(items)), last.size+int64(len(items))
			return
		}
	}
	in.queue = append(in.queue, clone(items))
}

// finish takes the end; err is nil for an orderly one. It never waits.
func (in *In) finish(err error) {
	in.mu.Lock()
	if !in.over {
		in.over, in.err = true, err
		in.wake()
	}
	in.mu.Unlock()
	in.set.forgetIn(in)
}

// wake wakes Next. in.mu is held.
func (in *In) wake() {
	if in.changed != nil {
		close(in.changed)
		in.changed = nil
	}
}
