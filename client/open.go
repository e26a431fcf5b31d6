package client

import (
	"context"
	"errors"
	"io"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/bufpool"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// syncWindow is how much of a stream of sync/* may wait here to be read.
const syncWindow = 4 * protocol.StreamWindow

// opening is a result that names a stream. The stream is expected as the result is
// decoded, since what it carries may be right behind.
type opening struct {
	window int64
	result any
	ref    *protocol.StreamRef // in result

	streams *stream.Set
	in      *stream.In
}

// UnmarshalWire implements wire.Unmarshaler.
func (o *opening) UnmarshalWire(raw []byte) (err error) {
	if err = wire.Unmarshal(raw, o.result); err == nil {
		o.in, err = o.streams.Expect(*o.ref, o.window)
	}
	return err
}

// open sends a request, once, whose result names a stream. When ctx ends before the
// answer is there, the stream is given up as soon as it is opened.
func (c *Client) open(ctx context.Context, method string, params any, o *opening) error {
	l, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	o.streams = l.streams
	answered := make(chan error, 1)
	if !c.spawn(func() { answered <- l.peer.Call(c.life, method, params, o) }) {
		return ErrClosed
	}
	select {
	case err := <-answered:
		return callError(method, err)
	case <-ctx.Done():
	}
	c.spawn(func() {
		if <-answered == nil {
			o.in.Close(context.Cause(ctx))
		}
	})
	return context.Cause(ctx)
}

// reopen is open for requests that are harmless to send again, until one is answered.
func (c *Client) reopen(ctx context.Context, method string, params any, o *opening) error {
	for {
		err := c.open(ctx, method, params, o)
		if !errors.Is(err, ErrMayHaveRun) || ctx.Err() != nil || c.Err() != nil {
			return err
		}
	}
}

// received is a stream of the server's. The end of the connection is ErrTransportClosed.
func received[T, W any](in *stream.In, form func(*W) (T, error)) changes.Stream[T] {
	s := changes.FromStream(in, form)
	return changes.FromFunc(func(ctx context.Context) (T, error) {
		item, err := s.Next(ctx)
		return item, lostStream(err)
	}, s.Close)
}

// give sends a request, once, with a stream. What is short enough goes with the request.
// The stream is closed in any case.
func give[T, W any](ctx context.Context, c *Client, method string, s changes.Stream[T], form func(*T) W,
	params func(protocol.StreamParam) any, result any,
) error {
	src := &begun{Source: changes.ToSource(s, form)}
	defer src.release()
	short, err := src.read(ctx)
	if err != nil {
		s.Close(err)
		return err
	}
	l, err := c.acquire(ctx)
	if err != nil {
		s.Close(err)
		return err
	}
	if short {
		s.Close(nil)
		err := l.peer.Call(ctx, method, params(protocol.StreamParam{Items: &src.text}), result)
		src.sent = err == nil
		return callError(method, err)
	}
	out, err := l.streams.Reserve(nil, 0)
	if err != nil {
		s.Close(err)
		return lostCall(method, err)
	}
	out.Send(context.Background(), stream.Source{Next: src.next, Close: src.Close, Describe: src.Describe}) // ctx may be that of a request here
	err = l.peer.Call(ctx, method, params(out.Param()), result)
	if err != nil && ctx.Err() != nil {
		out.Abort(context.Cause(ctx))
	}
	out.Stop(stream.ErrCancelled)
	<-out.Done()
	src.sent = err == nil
	if err != nil && src.failed != nil {
		return src.failed // the server says it after us
	}
	return callError(method, err)
}

// begun is a Source whose beginning has been read.
type begun struct {
	stream.Source
	text   wire.List     // of the items that have been read
	unsent wire.Elements // those that are to be sent
	failed error         // what the source failed with
	memory []byte        // from bufpool.Take, nil for none; the text is in it, or was
	sent   bool          // nothing refers to the text any more
}

// release has the memory of a text that was sent used again. That of another one may still wait to
// be sent.
func (g *begun) release() {
	if g.sent {
		bufpool.Keep(g.memory)
	}
}

// read reads the beginning, and reports whether that is all.
func (g *begun) read(ctx context.Context) (all bool, err error) {
	text := []byte{'['}
	for len(text) < protocol.StreamBatchBytes {
		item, err := g.Next(ctx)
		if errors.Is(err, io.EOF) {
			all = true
			break
		}
		if err == nil {
			if len(text) > 1 {
				text = append(text, ',')
			}
			text, err = wire.Append(g.grow(text), item)
		}
		if err != nil {
			return false, err
		}
	}
	g.text = append(text, ']')
	g.unsent = g.text.Elements()
	return all, nil
}

// grow moves a text that is becoming long to memory that there is for such.
func (g *begun) grow(text []byte) []byte {
	if g.memory != nil || len(text) < protocol.StreamBatchBytes/16 {
		return text
	}
	g.memory = bufpool.Take(bufpool.Size(2 * protocol.StreamBatchBytes))
	return append(g.memory, text...)
}

func (g *begun) next(ctx context.Context) (any, error) {
	if item, ok := g.unsent.Next(); ok {
		return protocol.RawData(item), nil
	}
	item, err := g.Next(ctx)
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		g.failed = err
	}
	return item, err
}
