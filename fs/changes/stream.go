package changes

import (
	"context"
	"errors"
	"io"
	"iter"
)

// FromSlice is a stream of some items.
func FromSlice[T any](items []T) Stream[T] {
	return FromFunc(func(context.Context) (item T, err error) {
		if len(items) == 0 {
			return item, io.EOF
		}
		item, items = items[0], items[1:]
		return item, nil
	}, nil)
}

// FromFunc is a stream whose items next returns, io.EOF after the last one. next is not
// called again after an error of it, which is then repeated, nor after Close. closed, nil
// for nothing, is called at the first Close.
func FromFunc[T any](next func(context.Context) (T, error), closed func(error)) Stream[T] {
	return &funcStream[T]{next: next, closed: closed}
}

type funcStream[T any] struct {
	next   func(context.Context) (T, error)
	closed func(error)
	err    error
}

// errGivenUp is returned for a stream that its reader has closed.
var errGivenUp = errors.New("the stream was given up by its reader")

func (s *funcStream[T]) Next(ctx context.Context) (T, error) {
	var none T
	if s.err != nil {
		return none, s.err
	}
	if err := ctx.Err(); err != nil {
		return none, context.Cause(ctx)
	}
	item, err := s.next(ctx)
	if err != nil && ctx.Err() == nil {
		s.err = err
	}
	return item, err
}

func (s *funcStream[T]) Close(err error) {
	if closed := s.closed; closed != nil {
		s.closed = nil
		closed(err)
	}
	if s.err == nil {
		s.err = errGivenUp
	}
	s.next = nil
}

// Map is a stream of what fn makes of the items of another, which it closes with it. An
// error of fn ends it.
func Map[T, U any](in Stream[T], fn func(T) (U, error)) Stream[U] {
	return FromFunc(func(ctx context.Context) (U, error) {
		item, err := in.Next(ctx)
		if err != nil {
			var none U
			return none, err
		}
		return fn(item)
	}, in.Close)
}

// All is the items of a stream, which is closed when the loop ends. The error, if there
// is one, comes last.
func All[T any](ctx context.Context, in Stream[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			item, err := in.Next(ctx)
			if errors.Is(err, io.EOF) {
				in.Close(nil)
				return
			}
			if err != nil || !yield(item, nil) {
				in.Close(err)
				if err != nil {
					yield(item, err)
				}
				return
			}
		}
	}
}

// Collect reads a stream to its end and closes it. It returns what came before an error
// as well.
func Collect[T any](ctx context.Context, in Stream[T]) ([]T, error) {
	var items []T
	for item, err := range All(ctx, in) {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}
