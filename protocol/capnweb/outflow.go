package capnweb

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol/bufpool"
)

// An outflow writes to a stream of the peer's. Its fields are under the lock of its
// session; one goroutine at a time writes.
type outflow struct {
	s      *Session
	p      *promise // the writable end, of which it has a reference
	win    window
	failed error // no more can be written: rejected, aborted or the session ended
	closed bool
	gone   bool          // the reference is given up
	wake   chan struct{} // holds a token when there may be room
	ctx    context.Context
	cancel context.CancelCauseFunc
	last   int // length of the latest chunk as text; the writer's
}

func newOutflow(s *Session, p *promise, fixed int) *outflow {
	o := &outflow{s: s, p: p, win: newWindow(fixed), wake: make(chan struct{}, 1)}
	o.ctx, o.cancel = context.WithCancelCause(s.ctx)
	return o
}

// pump sends what src has until it ends or the peer wants no more.
func (o *outflow) pump(src source) {
	defer o.cancel(nil)
	for {
		var v any
		turn, err := o.turn()
		ours := err != nil // and not the source's
		if !ours {
			v, err = src.next(o.ctx)
			turn.had()
			if err == nil {
				err = o.write(o.ctx, v)
				ours = err != nil
			}
			turn.end()
		}
		switch {
		case err == nil:
			continue
		case ours:
			src.cancel(err)
		case o.ctx.Err() != nil:
			src.cancel(context.Cause(o.ctx))
		}
		o.s.lock()
		if errors.Is(err, io.EOF) {
			o.close(func(error) {})
		} else {
			o.abort(err)
		}
		o.s.unlock()
		return
	}
}

// write sends one chunk and waits until the next may be sent.
func (o *outflow) write(ctx context.Context, v any) error {
	enc, err := encodeInto(o.buffer(), v, o.s.cfg.MapError)
	if err != nil {
		return err
	}
	o.last = len(enc.full)
	enc.localize(o.s, false)
	if err := o.await(ctx); err != nil {
		return err
	}
	defer o.s.unlock()
	return o.send("write", enc)
}

// buffer returns memory for a chunk, which is often as long as the one before.
func (o *outflow) buffer() []byte {
	size := o.last + headRoom
	if size < bufpool.LeastSize {
		return make([]byte, 0, size)
	}
	return bufpool.Take(bufpool.Size(size))
}

// await waits until a chunk may be sent. It returns under the lock, unless with an error.
func (o *outflow) await(ctx context.Context) error {
	for {
		o.s.lock()
		var err error
		switch {
		case o.failed != nil:
			err = o.failed
		case o.closed:
			err = ErrReleased
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case !o.win.full() && !o.s.full():
			return nil
		}
		full := o.win.full()
		o.s.unlock()
		if err != nil {
			return err
		}
		if !full { // the queue is
			if err := o.s.waitRoom(ctx); err != nil {
				return err
			}
			continue
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A turn allows a pump to have a chunk that may not find room. Those of a session are few:
// so streams that nobody reads, however many, hold few chunks. The nil turn is none.
type turn struct {
	session *Session
	over    sync.Once
	slow    *time.Timer
}

func (t *turn) end() {
	if t != nil {
		t.slow.Stop()
		t.lose()
	}
}

// lose lets another pump have a turn.
func (t *turn) lose() { t.over.Do(func() { <-t.session.turns }) }

// had says that the chunk is there: from now on the turn lasts until its end.
func (t *turn) had() {
	if t != nil {
		t.slow.Stop()
	}
}

// turn waits until the next chunk would find room. A source that has none within
// slowSource loses the turn. Streams with a fixed window need none: what feeds them is to
// run ahead by that.
func (o *outflow) turn() (*turn, error) {
	if o.win.fixed {
		return nil, nil
	}
	for {
		if err := o.await(o.ctx); err != nil {
			return nil, err
		}
		o.s.unlock()
		select {
		case o.s.turns <- struct{}{}:
		case <-o.ctx.Done():
			return nil, context.Cause(o.ctx)
		}
		o.s.lock()
		room := !o.win.full() && !o.s.full()
		o.s.unlock()
		if room {
			t := &turn{session: o.s}
			t.slow = time.AfterFunc(slowSource, t.lose)
			return t, nil
		}
		<-o.s.turns // others were faster
	}
}

// send sends a chunk. It is called under the lock.
func (o *outflow) send(method string, enc *encoded) error {
	var f flight
	size, err := o.frame(method, enc, func(err error) {
		if err == nil {
			o.win.ack(f, time.Now())
		} else {
			o.win.lose(f)
			o.stop(err)
		}
		o.signal()
	})
	if err != nil {
		return err
	}
	f = o.win.send(size, time.Now())
	return nil
}

func (o *outflow) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// frame sends a stream frame. The answer comes under the lock.
func (o *outflow) frame(method string, enc *encoded, answer func(error)) (int, error) {
	if o.s.ended != nil {
		return 0, o.s.ended
	}
	if o.s.cfg.batch {
		return 0, errBatchEnded
	}
	head := `["stream",["pipeline",` + strconv.FormatInt(o.p.id, 10) + `,["` + method + `"],[`
	buf := enc.full
	text, err := o.s.fill(enc, head, `]]]`)
	if err != nil {
		return 0, err
	}
	if enc.full != nil || method != "write" {
		buf = nil // it was copied, or is not from bufpool
	}
	id := o.s.nextImport
	o.s.nextImport++
	o.s.imports[id] = &promise{s: o.s, imported: true, id: id, onAnswer: answer}
	o.s.addMessage(message{text, buf})
	return len(text), nil
}

// close ends the stream in order; what was written may still be rejected. It is called
// under the lock, and so is answer.
func (o *outflow) close(answer func(error)) {
	err := o.failed
	if err == nil && o.closed {
		err = ErrReleased
	}
	if err == nil {
		o.closed = true
		_, err = o.frame("close", &encoded{}, func(err error) {
			if err == nil {
				err = o.failed
			}
			o.release()
			answer(err)
		})
	}
	if err != nil {
		answer(err)
	}
}

// abort ends the stream with an error. It is called under the lock.
func (o *outflow) abort(reason error) {
	if o.failed != nil || o.closed {
		return
	}
	o.failed = reason
	if _, err := o.frame("abort", encodeError(reason, o.s.cfg.MapError), func(error) { o.release() }); err != nil {
		o.release()
	}
}

// stop ends the stream as the peer will have no more, or as it cannot be. It is called
// under the lock.
func (o *outflow) stop(reason error) {
	if o.failed == nil {
		o.failed = reason
		o.cancel(reason)
	}
	o.signal()
	o.release()
}

// release gives up the writable end.
func (o *outflow) release() {
	if !o.gone {
		o.gone = true
		o.s.drop(o.p)
	}
}
