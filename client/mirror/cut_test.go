package mirror

import (
	"context"
	"errors"
	"sync"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

var errCut = errors.New("the connection was cut")

// A cutter is a Peer whose connection breaks after some calls and items of streams.
type cutter struct {
	changes.Peer
	mute bool // pushes look at no base and do not say what they changed, as with other servers

	mu     sync.Mutex
	left   int  // until it breaks; negative for never
	answer bool // what breaks it is done all the same: its answer is lost
}

func (c *cutter) set(left int, answer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.answer = left, answer
}

// step counts; what it returns first is whether to do it, and then what to say.
func (c *cutter) step() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.left < 0:
		return true, nil
	case c.left == 0:
		return false, errCut
	}
	if c.left--; c.left == 0 {
		return c.answer, errCut
	}
	return true, nil
}

// cutCall makes a call, or loses it, or its answer.
func cutCall[T any](c *cutter, fn func() (T, error)) (T, error) {
	var none T
	do, cut := c.step()
	if !do {
		return none, cut
	}
	got, err := fn()
	if cut != nil {
		return none, cut
	}
	return got, err
}

// cutStream is a stream that may break at each item.
func cutStream[T any](c *cutter, in changes.Stream[T]) changes.Stream[T] {
	return changes.FromFunc(func(ctx context.Context) (T, error) {
		return cutCall(c, func() (T, error) { return in.Next(ctx) })
	}, in.Close)
}

func (c *cutter) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	return cutCall(c, func() (changes.Watermarks, error) {
		w, err := c.Peer.Watermarks(ctx, settle)
		w.ChecksBase = w.ChecksBase && !c.mute
		return w, err
	})
}

func (c *cutter) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	return cutCall(c, func() ([]tree.Hash, error) { return c.Peer.HasObjects(ctx, hashes) })
}

func (c *cutter) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	s, err := cutCall(c, func() (changes.Stream[tree.Data], error) { return c.Peer.FetchObjects(ctx, hashes) })
	if err != nil {
		return nil, err
	}
	return cutStream(c, s), nil
}

func (c *cutter) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	_, err := cutCall(c, func() (bool, error) { return true, c.Peer.PushObjects(ctx, cutStream(c, objects)) })
	return err
}

func (c *cutter) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	return cutCall(c, func() (changes.PushResult, error) {
		r, err := c.Peer.Push(ctx, in, cutStream(c, entries))
		if c.mute {
			r.Before = 0
		}
		return r, err
	})
}

func (c *cutter) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	f, err := cutCall(c, func() (*changes.Fetch, error) { return c.Peer.FetchChanges(ctx, q) })
	if err != nil {
		return nil, err
	}
	f.Entries = cutStream(c, f.Entries)
	return f, nil
}
