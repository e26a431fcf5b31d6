package computerwire

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// Send gives a stream to a session, its items in the form that form gives. The stream is
// closed at its end, and when the peer or the session wants no more of it.
func Send[T, W any](s changes.Stream[T], form func(T) (W, error)) capnweb.Stream[W] {
	var once sync.Once
	end := func(err error) { once.Do(func() { s.Close(err) }) }
	return capnweb.NewStream(func(ctx context.Context) (W, error) {
		var out W
		item, err := s.Next(ctx)
		if err == nil {
			out, err = form(item)
		}
		if errors.Is(err, io.EOF) {
			end(nil)
		} else if err != nil {
			end(err)
		}
		return out, err
	}, end)
}

// Receive reads what the peer sends. Errors of the stream are what failed makes of them,
// nil for themselves.
func Receive[W, T any](s capnweb.Stream[W], form func(W) (T, error), failed func(error) error) changes.Stream[T] {
	return &received[W, T]{s, form, failed}
}

type received[W, T any] struct {
	s      capnweb.Stream[W]
	form   func(W) (T, error)
	failed func(error) error
}

// Next implements changes.Stream.
func (r *received[W, T]) Next(ctx context.Context) (out T, err error) {
	item, err := r.s.Next(ctx)
	switch {
	case err == nil:
		return r.form(item)
	case r.failed != nil && !errors.Is(err, io.EOF):
		err = r.failed(err)
	}
	return out, err
}

var errEnough = &capnweb.Error{Message: "no more is wanted"}

// Close implements changes.Stream.
func (r *received[W, T]) Close(err error) {
	if err == nil {
		err = errEnough
	}
	r.s.Cancel(err)
}

// Same is the form of what needs none.
func Same[T any](v T) (T, error) { return v, nil }
