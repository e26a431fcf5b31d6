package client

import (
	"context"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

// maxQueuedChanges bounds the changes of a Watch that wait to be read. Beyond it they
// are dropped, and an overflow is reported.
const maxQueuedChanges = 16_384

// WatchOptions are what Watch may be told; nil and the zero value work.
type WatchOptions struct {
	// Shallow watches the directory alone, and not what is below its directories.
	Shallow bool
	// Exclude are glob patterns for what is not reported nor entered.
	Exclude []string
}

// Change is a path and what happened to it last: protocol.ChangeCreated,
// ChangeModified or ChangeRemoved.
type Change struct {
	Path, Kind string
}

// Changes is what a Watch reports at a time.
type Changes struct {
	Changes []Change
	// Overflow means that changes were lost, at the server, on the way or here: look at
	// the tree again.
	Overflow bool
}

// Watch reports changes of files. It goes on across lost connections, with an
// overflow for each.
type Watch struct {
	client *Client
	params protocol.WatchParams

	mu       sync.Mutex
	queue    []Change
	overflow bool
	changed  chan struct{} // non-nil while Next waits
	on       *link         // the connection it is set on; nil until the first answer
	err      error
}

// Watch watches a file or a directory with all below it. What changes after Watch has
// returned is reported by Next. It needs the capability fsWatch.
func (c *Client) Watch(ctx context.Context, root string, opts *WatchOptions) (*Watch, error) {
	if err := c.need(ctx, protocol.CapFsWatch); err != nil {
		return nil, err
	}
	uri, err := c.uri(ctx, root)
	if err != nil {
		return nil, err
	}
	w := &Watch{client: c, params: protocol.WatchParams{WatchID: c.newID(), Path: uri}}
	if opts != nil {
		recursive := !opts.Shallow
		w.params.Recursive, w.params.Exclude = &recursive, opts.Exclude
	}
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.watches[w.params.WatchID] = w
	c.mu.Unlock()
	if err := w.begin(ctx); err != nil {
		w.forget()
		if ctx.Err() != nil {
			c.spawn(w.unwatch)
		}
		return nil, pathError("watch", root, err)
	}
	return w, nil
}

// begin sets the watch on the connection of the moment. It is one of that connection:
// when that ends before the answer, it is set on the next.
func (w *Watch) begin(ctx context.Context) error {
	for {
		l, err := w.client.acquire(ctx)
		if err != nil {
			return err
		}
		err = l.peer.Call(ctx, protocol.MethodFsWatch, &w.params, nil)
		if isClosed(err) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return callError(protocol.MethodFsWatch, err)
		}
		w.mu.Lock()
		w.on = l
		w.mu.Unlock()
		if now := w.client.link(); now != nil && now != l {
			w.client.spawn(func() { w.renew(now) }) // it came before w.on was set
		}
		return nil
	}
}

// renew sets the watch on a new connection, once on each.
func (w *Watch) renew(l *link) {
	w.mu.Lock()
	if w.on == nil || w.on == l || w.err != nil {
		w.mu.Unlock()
		return
	}
	w.on = l
	w.mu.Unlock()
	err := l.peer.Call(w.client.life, protocol.MethodFsWatch, &w.params, nil)
	switch {
	case err == nil:
		if !w.lost() { // its end may have been sent before its renewal
			w.client.spawn(w.unwatch)
		}
	case isClosed(err): // the next connection does it
	default:
		w.fail(callError(protocol.MethodFsWatch, err))
	}
}

// Next returns what has changed since the last call, waiting for at least one change
// or an overflow.
func (w *Watch) Next(ctx context.Context) (Changes, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.overflow {
		if w.err != nil {
			return Changes{}, w.err
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		w.mu.Lock()
		if err != nil {
			return Changes{}, err
		}
	}
	out := Changes{Changes: w.queue, Overflow: w.overflow}
	w.queue, w.overflow = nil, false
	return out, nil
}

// Close ends the watch. Next fails with ErrClosed after it.
func (w *Watch) Close() error {
	w.fail(ErrClosed)
	w.client.spawn(w.unwatch)
	return nil
}

func (w *Watch) unwatch() {
	ctx, cancel := context.WithTimeout(w.client.life, closeHandleWait)
	defer cancel()
	_ = w.client.call(ctx, protocol.MethodFsUnwatch, &protocol.UnwatchParams{WatchID: w.params.WatchID}, nil)
}

// handle takes what the server reports. It never waits.
func (w *Watch) handle(report *protocol.ChangedParams) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.overflow = w.overflow || report.Overflow
	for _, change := range report.Changes {
		name, err := pathOf(change.Path)
		if err != nil || len(w.queue) >= maxQueuedChanges {
			w.queue, w.overflow = nil, true
			continue
		}
		w.queue = append(w.queue, Change{Path: name, Kind: change.Kind})
	}
	w.wake()
}

// lost reports that changes may have been missed; false when the watch has ended.
func (w *Watch) lost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false
	}
	w.overflow = true
	w.wake()
	return true
}

func (w *Watch) fail(err error) {
	w.forget()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.wake()
}

func (w *Watch) forget() {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	delete(w.client.watches, w.params.WatchID)
}

func (w *Watch) wake() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}
