package process

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// publishBytes is how much output is taken from the log at a time.
const publishBytes = 128 << 10

// publish tells the client of everything that is logged of a process, in order. While
// nobody is attached it moves on all the same: who attaches is told what happens from
// then on, and reads what was before. It moves by single events, because one that is
// logged after somebody has attached and read must not be passed over.
func (s *Service) publish(e *entry) {
	select {
	case <-e.replied: // nothing is told of a process before its id is known
	case <-s.lifetime.Done():
		return
	}
	var events []Event
	for after := uint64(0); ; {
		page, err := e.log.Read(events[:0], after, publishBytes)
		if err != nil {
			e.fail(err)
			return
		}
		if events = page.Events; len(events) == 0 {
			if !s.awaitEvent(e, after) {
				return
			}
			continue
		}
		for i := range events {
			if !s.notify(e, &events[i]) {
				return
			}
			events[i].giveUp()
			after = events[i].Seq
		}
		if events[len(events)-1].Kind == KindClosed {
			return
		}
		clear(events) // do not hold on to what the log may forget
	}
}

// awaitEvent waits for an event with a number above after; false at the end of the
// service.
func (s *Service) awaitEvent(e *entry, after uint64) bool {
	changed := e.changed.next()
	page, err := e.log.Read(nil, after, 0)
	page.giveUp()
	if err != nil || page.Next > after+1 {
		return true // the caller reads again
	}
	select {
	case <-changed:
		return true
	case <-e.broken:
		return false
	case <-s.lifetime.Done():
		return false
	}
}

// notify tells the client of one event, waiting for a slow one. It returns false at
// the end of the service.
func (s *Service) notify(e *entry, event *Event) bool {
	var err error
	switch event.Kind {
	case KindOutput:
		err = s.notifier.Notify(s.lifetime, protocol.NotifyProcessOutput, &protocol.OutputParams{
			ProcessID: e.id, Seq: event.Seq, Stream: event.Stream, Chunk: event.Data,
		})
		e.window.remove(len(event.Data))
	case KindExited:
		err = s.notifier.Notify(s.lifetime, protocol.NotifyProcessExited, &protocol.ExitedParams{
			ProcessID: e.id, Seq: event.Seq, ExitCode: event.Exit.Code, SandboxDenied: event.Exit.SandboxDenied,
			Signal: event.Exit.Signal, TimedOut: event.Exit.TimedOut,
		})
	case KindClosed:
		err = s.notifier.Notify(s.lifetime, protocol.NotifyProcessClosed, &protocol.ClosedParams{ProcessID: e.id, Seq: event.Seq})
	}
	switch {
	case err == nil, errors.Is(err, rpc.ErrClosed):
	case context.Cause(s.lifetime) != nil:
		return false
	default:
		e.logger.Error("client was not told of an event", "seq", event.Seq, "err", err)
	}
	return context.Cause(s.lifetime) == nil
}
