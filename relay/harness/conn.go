package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// reasonGivenUp is of resets that nobody gets, as there is no socket.
const reasonGivenUp = "given_up"

// errSilent ends a socket over which nothing is heard.
var errSilent = errors.New("the executor is silent")

// A conn is a stream, and what keeps it going: one goroutine that reads its socket and
// replaces it.
type conn struct {
	stream  *relay.Stream // not embedded: this is no rpc.Awaiter
	reader  *handoff.Reader
	h       *Harness
	id      string
	profile frame.Profile

	life context.Context // ends with the stream, when it has said so
	end  context.CancelCauseFunc
	done chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex
	lose  context.CancelCauseFunc // ends the reading of the socket of the moment
	cause error                   // why the stream was given up from here; nil if it was not
}

// newConn takes over a socket over which the handshake has just been made.
func newConn(h *Harness, id string, profile frame.Profile, transport *seal.Transport, carrier relay.Carrier) *conn {
	c := &conn{h: h, id: id, profile: profile, done: make(chan struct{})}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.stream = relay.NewStream(relay.StreamConfig{
		ID: id, Profile: profile, Transport: transport, Carrier: carrier,
		Life:     h.cfg.StreamLife,
		OnSilent: c.silent,
		OnEnd:    func(err error) { c.end(err) },
		Trace:    h.cfg.Trace, Logger: h.cfg.Logger, Rand: h.newRand(),
	})
	reading := handoff.ReaderConfig{
		Take: c.take, TryRead: c.stream.TryRead, Read: c.stream.Read, TakeOver: takeOver,
		Messages: func() uint64 { return c.stream.Info().Stats.Messages },
	}
	if profile != frame.Reliable {
		reading.Room = c.stream.WaitRoom // the peer has no other way to learn that it is too fast
	}
	c.reader = handoff.NewReader(reading)
	go c.keep(carrier) // Close waits for it; it ends with the stream, too
	return c
}

// keep reads from carrier, and from what replaces it, until the stream ends.
func (c *conn) keep(carrier relay.Carrier) {
	defer close(c.done)
	defer c.bury()
	backoff := backoff{rand: c.h.newRand()}
	for {
		began, before := time.Now(), c.stream.Info().Cursors
		err := c.read(carrier)
		if c.stream.Err() != nil {
			// Nobody would tell the executor in our place: a relay forgets the sockets of
			// reliable streams in silence.
			<-c.life.Done()
		}
		_ = carrier.Close()
		if c.life.Err() != nil {
			return
		}
		c.h.log.Info("relay socket lost", "stream", c.id, "dur", time.Since(began), "err", err)
		if c.profile != frame.Reliable {
			c.fail(err)
			c.stream.Detach() // which is the end of it
			return
		}
		c.stream.Detach()
		after := c.stream.Info().Cursors
		backoff.lost(time.Since(began), after.Acked != before.Acked || after.Received != before.Received)
		carrier, err = c.replace(&backoff)
		if err != nil {
			c.fail(err)
			c.stream.Reset(reasonGivenUp)
			return
		}
		if carrier == nil {
			return
		}
		c.stream.Attach(carrier)
	}
}

// bury has the executor told that the stream has ended, if it may not know.
func (c *conn) bury() {
	info := c.stream.Info()
	if c.profile == frame.Reliable && (!info.Attached || !errors.Is(c.stream.Err(), arq.ErrClosed)) {
		c.h.bury(grave{c.id, info.Epoch})
	}
}

// read hands the frames of a socket to the stream, until the socket is lost or the stream has
// ended.
func (c *conn) read(carrier relay.Carrier) error {
	ctx, lose := context.WithCancelCause(c.life)
	defer lose(nil)
	c.mu.Lock()
	c.lose = lose
	c.mu.Unlock()
	return c.reader.Serve(ctx, carrier.Read)
}

// take gives a frame to the stream. In the codex profile one that is not valid, or that
// no executor sends now, ends the connection; in the reliable one it is dropped, as
// whoever is in between must not be able to do more by it than by cutting the socket.
func (c *conn) take(message []byte) error {
	f, err := decode(message, c.id)
	if f == nil && err == nil {
		return nil
	}
	if err == nil {
		err = c.check(f)
	}
	switch {
	case err == nil:
		c.stream.Handle(f, nil)
	case c.profile == frame.Reliable:
		c.h.log.Debug("invalid frame dropped", "stream", c.id, "err", err)
	default:
		return err
	}
	return nil
}

// check says whether the stream can get such a frame.
func (c *conn) check(f *relayv1.RelayMessageFrame) error {
	switch body := f.GetBody().(type) {
	case *relayv1.RelayMessageFrame_Data:
		return frame.CheckSegment(body.Data, c.profile)
	case *relayv1.RelayMessageFrame_Handshake:
		return errors.New("a second handshake")
	}
	return nil
}

// silent is called by the stream when it has not heard of the executor for too long.
func (c *conn) silent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lose != nil {
		c.lose(errSilent)
	}
}

// replace makes a new socket for the stream. It returns nil, nil when the stream has
// ended meanwhile, and an error when there is no use in trying any longer.
func (c *conn) replace(b *backoff) (relay.Carrier, error) {
	for {
		if !wait(c.life, b.next()) {
			return nil, nil
		}
		way, err := c.h.reach(c.life, nil)
		switch {
		case err == nil:
			// Its authorization is for a handshake, and there is none.
			return way.carrier, nil
		case c.life.Err() != nil:
			return nil, nil
		case Permanent(err):
			return nil, err
		}
		c.h.log.Debug("relay socket not replaced", "stream", c.id, "err", err)
	}
}

// fail says why the stream ends.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause = err
}

// explain adds to an error of the stream why it was given up.
func (c *conn) explain(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, c.cause)
}

// Read implements rpc.Connection.
func (c *conn) Read(ctx context.Context) ([]byte, error) {
	msg, err := c.reader.Read(ctx)
	return msg, c.explain(err)
}

// Write implements rpc.Connection.
func (c *conn) Write(ctx context.Context, msg []byte) error {
	return c.explain(c.stream.Write(ctx, msg))
}

// TryWrite implements rpc.TryWriter.
func (c *conn) TryWrite(msg []byte) (finish func() error, err error) {
	rest, err := c.stream.TryWrite(msg)
	if rest != nil {
		finish = func() error { return c.explain(rest()) }
	}
	return finish, c.explain(err)
}

// Info says how the stream is.
func (c *conn) Info() relay.StreamInfo { return c.stream.Info() }

// Err is why the stream ended, nil while it has not.
func (c *conn) Err() error { return c.explain(c.stream.Err()) }

// Close implements rpc.Connection. It returns when nothing of the connection runs any
// more.
func (c *conn) Close() error {
	err := c.stream.Close()
	<-c.done
	return err
}

// CloseFault implements rpc.FaultCloser.
func (c *conn) CloseFault(code int, reason string) error {
	err := c.stream.CloseFault(code, reason)
	<-c.done
	return err
}
