package capnweb

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
)

// A source is where the items of a stream come from.
type source interface {
	// next returns the next item, io.EOF after the last.
	next(ctx context.Context) (any, error)
	// cancel says that no more is wanted. It may come at any time, and again.
	cancel(reason error)
}

// A stream is a source and what has become of it.
type stream struct {
	src     source
	fixed   int // window when it is sent; 0 adapts
	taken   atomic.Bool
	kept    atomic.Bool
	holders atomic.Int32
	claimed bool // was decoded to a place, by one goroutine
}

func (st *stream) hold() { st.holders.Add(1) }

// letGo reports whether the stream is to be cancelled.
func (st *stream) letGo() bool {
	return st.holders.Add(-1) == 0 && !st.taken.Load() && !st.kept.Load()
}

// A Stream is a ReadableStream of items that are encoded and decoded as T. As part of a
// result or an argument it is sent: items are taken from it as the peer takes them. As
// part of what was received it is read with Next or All.
//
// One goroutine at a time reads a Stream. One that is not read to its end is cancelled by
// whoever got it, which for the arguments of a Method happens when that returns.
type Stream[T any] struct{ st *stream }

type streamer interface{ inner() *stream }

type streamSetter interface{ set(*stream) }

func (s Stream[T]) inner() *stream                 { return s.st }
func (s *Stream[T]) set(st *stream)                { s.st = st }
func (s Stream[T]) IsZero() bool                   { return s.st == nil } //nolint:revive // as encoding/json has it
func (s Stream[T]) usable() bool                   { return s.st != nil && !s.st.taken.Load() }
func newStream[T any](src source, n int) Stream[T] { return Stream[T]{&stream{src: src, fixed: n}} }

// NewStream makes a Stream of a function that returns the next item, io.EOF after the
// last. Its context ends when the peer wants no more, with the reason as its cause; then,
// and when the stream is dropped unread, cancel is called, once, unless it is nil. Another
// error of next goes to the peer.
func NewStream[T any](next func(context.Context) (T, error), cancel func(reason error)) Stream[T] {
	return newStream[T](&funcSource{
		get:  func(ctx context.Context) (any, error) { return next(ctx) },
		stop: cancel,
	}, 0)
}

// NewBytesStream makes a Stream of what r has, in pieces of up to 64 KiB. It closes r, if
// that can be closed, when the stream is cancelled and at its end.
func NewBytesStream(r io.Reader) Stream[[]byte] {
	stop := func(error) {
		if c, ok := r.(io.Closer); ok {
			c.Close()
		}
	}
	return NewStream(func(context.Context) ([]byte, error) {
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				return buf[:n], nil
			}
			if err != nil {
				stop(nil)
				return nil, err
			}
		}
	}, stop)
}

// StreamOf makes a Stream of items.
func StreamOf[T any](items ...T) Stream[T] {
	return NewStream(func(context.Context) (T, error) {
		if len(items) == 0 {
			var none T
			return none, io.EOF
		}
		first := items[0]
		items = items[1:]
		return first, nil
	}, nil)
}

// WithWindow returns the stream with a window of n bytes that stays as it is, where by
// default it follows the path and the reader. The window is how far what feeds the stream
// can run ahead of the peer.
func (s Stream[T]) WithWindow(n int) Stream[T] {
	s.st.fixed = n
	return s
}

// Next returns the next item, which the peer takes as read. It returns io.EOF after the
// last, or what broke the stream.
func (s Stream[T]) Next(ctx context.Context) (item T, err error) {
	if !s.usable() {
		return item, ErrReleased
	}
	v, err := s.st.src.next(ctx)
	if err != nil {
		return item, err
	}
	if t, ok := v.(T); ok {
		claimAll(v)
		return t, nil
	}
	if err := assign(v, &item); err != nil {
		misfit := &Error{Name: "TypeError", Message: err.Error(), Code: CodeInvalid}
		s.Cancel(misfit)
		return item, misfit
	}
	return item, nil
}

// All returns the items that are left. It cancels the stream when the loop is left early.
func (s Stream[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			item, err := s.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(item, err) {
				s.Cancel(errEnough)
				return
			}
			if err != nil {
				return
			}
		}
	}
}

var errEnough = &Error{Message: "the reader has had enough"}

// Cancel says that no more is wanted; the writer is told the reason.
func (s Stream[T]) Cancel(reason error) {
	if s.usable() {
		s.st.src.cancel(reason)
	}
}

// Keep makes a stream among the arguments of a Method outlive it.
func (s Stream[T]) Keep() Stream[T] {
	if s.st != nil {
		s.st.kept.Store(true)
	}
	return s
}

// A funcSource is a source made of functions.
type funcSource struct {
	get     func(context.Context) (any, error)
	stop    func(error)
	stopped atomic.Bool
}

func (f *funcSource) next(ctx context.Context) (any, error) {
	if f.stopped.Load() {
		return nil, ErrReleased
	}
	return f.get(ctx)
}

func (f *funcSource) cancel(reason error) {
	if !f.stopped.Swap(true) && f.stop != nil {
		f.stop(reason)
	}
}

// NewReader reads the pieces of a stream of bytes as one.
func NewReader(ctx context.Context, s Stream[[]byte]) io.Reader {
	return &streamReader{ctx: ctx, s: s}
}

type streamReader struct {
	ctx  context.Context //nolint:containedctx // an io.Reader has no other way to get it
	s    Stream[[]byte]
	rest []byte
}

func (r *streamReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		var err error
		if r.rest, err = r.s.Next(r.ctx); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// claimAll marks what a decoded value holds as taken by its receiver.
func claimAll(v any) {
	switch v := v.(type) {
	case *Stub:
		v.claimed = true
	case *Writer:
		v.claimed = true
	case Stream[any]:
		v.st.claimed = true
	case []any:
		for i := range v {
			claimAll(v[i])
		}
	case Object:
		for i := range v {
			claimAll(v[i].Value)
		}
	case *Error:
		if v != nil {
			claimAll(v.Props)
		}
	}
}
