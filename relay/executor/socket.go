package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
)

// A socket is one connection to the relay, from its beginning to its end.
type socket struct {
	x       *executor
	carrier relay.Carrier
	// registration goes into the prologues of its handshakes.
	registration string
	log          *slog.Logger

	// control holds what the executor says for itself, in order: resets, and its
	// messages of handshakes.
	control chan control
	// readOn starts a goroutine that reads.
	readOn func()
	// gate belongs to the table's mutex.
	gate gate
	// handshakes are waited for at the end.
	handshakes sync.WaitGroup

	frames, invalid, resets, unsent atomic.Uint64
}

// A control is a frame that the executor sends for itself.
type control struct {
	frame *relayv1.RelayMessageFrame
	// written is closed when it was; nil if nobody wants to know.
	written chan struct{}
}

func (x *executor) newSocket(carrier relay.Carrier, registration string) *socket {
	return &socket{
		x: x, carrier: carrier, registration: registration, log: x.log,
		control: make(chan control, MaxControl), gate: newGate(),
	}
}

// serve serves the streams of the connection until it is lost or ctx has ended. Reliable
// streams are then without a connection, others have ended.
func (s *socket) serve(ctx context.Context) error {
	x, carrier := s.x, s.carrier
	// The connection outlives ctx by as much as streams need to say goodbye.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	for _, stream := range x.table.attach(s) {
		stream.Attach(carrier)
	}

	var wg sync.WaitGroup
	lose := func(err error) {
		end(err)
		_ = carrier.Close() // the end of reading says what there is to say
	}
	wg.Add(1) // of whoever reads
	s.readOn = func() {
		go func() {
			if err := s.read(life); err != nil {
				lose(err)
				wg.Done()
			}
		}()
	}
	s.readOn()
	wg.Go(func() {
		if err := s.write(life); err != nil {
			lose(err)
		}
	})
	wg.Go(func() {
		if err := watch(life, x.watchEvery, x.watchGap, carrier); err != nil {
			lose(err)
		}
	})
	select {
	case <-life.Done():
	case <-ctx.Done():
		x.shutdown()
		lose(context.Cause(ctx))
	}
	for _, stream := range x.table.detach() {
		stream.Detach()
	}
	wg.Wait()
	s.handshakes.Wait()
	s.log.Debug("relay connection over", "frames", s.frames.Load(), "invalid", s.invalid.Load(),
		"resets", s.resets.Load(), "unsent", s.unsent.Load())
	return context.Cause(life)
}

// read hands out what comes, until the connection is lost. It returns nil if another
// goroutine reads on.
func (s *socket) read(ctx context.Context) error {
	turn := handoff.NewTurn(s.readOn)
	for turn.Held() {
		message, err := s.carrier.Read(ctx)
		if errors.Is(err, relay.ErrText) {
			s.invalid.Add(1)
			continue
		}
		if err != nil {
			return err
		}
		s.frames.Add(1)
		f, err := frame.Decode(message)
		if err != nil {
			// Dropped; no stream is touched by it (noise-relay.md, section 8).
			s.invalid.Add(1)
			s.log.Debug("invalid frame dropped", "err", err)
			continue
		}
		s.take(ctx, f, turn)
	}
	return nil
}

// write writes what the executor says for itself.
func (s *socket) write(ctx context.Context) error {
	var buf []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-s.control:
			var err error
			if buf, err = frame.Append(buf[:0], c.frame); err != nil {
				s.log.Error("a frame of ours is invalid", "err", err)
				continue
			}
			s.x.traceFrame(relay.Out, c.frame)
			if err := s.carrier.Write(ctx, buf); err != nil {
				return err
			}
			if c.written != nil {
				close(c.written)
			}
		}
	}
}

// send queues a frame, unless the relay has stopped reading.
func (s *socket) send(c control) {
	select {
	case s.control <- c:
	default:
		if s.unsent.Add(1) == 1 {
			s.log.Warn("the relay does not read: a frame is not sent")
		}
	}
}

// reset tells the harness, or the relay, that there is no such stream, or not any more.
func (s *socket) reset(id, reason string) {
	s.resets.Add(1)
	s.send(control{frame: &relayv1.RelayMessageFrame{
		Version: frame.Version, StreamId: id,
		Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: reason}},
	}})
}

// sendAndWait queues a frame and returns when it was written.
func (s *socket) sendAndWait(ctx context.Context, f *relayv1.RelayMessageFrame) error {
	written := make(chan struct{})
	select {
	case s.control <- control{f, written}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		select {
		case <-written: // it counts more
			return nil
		default:
			return context.Cause(ctx)
		}
	}
}

// shutdown lets what is served end, and say so, for a while.
func (x *executor) shutdown() {
	t := time.NewTimer(ShutdownTimeout)
	defer t.Stop()
	select {
	case <-x.table.close():
	case <-t.C:
		x.log.Warn("streams did not end in time", "limit", ShutdownTimeout)
	}
}
