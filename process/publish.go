package process

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// publishBytes is how much output is taken from the log at a time.
const publishBytes = 128 << 10

// maxTellBytes is the most output that is told of by who has logged it. With more, it
// pays that one goroutine reads while the other encodes.
const maxTellBytes = 4 << 10

// atOnce is the context of what must not wait.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

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
	var events []eventlog.Event
	for after := uint64(0); ; {
		page, err := e.log.Read(events[:0], after, publishBytes)
		if err != nil {
			e.fail(err)
			return
		}
		if events = page.Events; len(events) == 0 {
			if !e.turn.rest(after) {
				continue // there is more by now
			}
			var ok bool
			if after, ok = s.awaitTurn(e); !ok {
				return
			}
			continue
		}
		for i := range events {
			if !s.notify(e, &events[i]) {
				return
			}
			events[i].Release()
			after = events[i].Seq
		}
		if events[len(events)-1].Kind == eventlog.KindClosed {
			return
		}
		clear(events) // do not hold on to what the log may forget
	}
}

// awaitTurn waits until there is something that is the publisher's to tell, and returns
// the number of the last event told of; false at the end of the service.
func (s *Service) awaitTurn(e *entry) (after uint64, ok bool) {
	for {
		select {
		case <-e.turn.due:
			if after, ok := e.turn.take(); ok {
				return after, true
			}
		case <-e.broken:
			return 0, false
		case <-s.lifetime.Done():
			return 0, false
		}
	}
}

// tell is told of each event once it is logged. It tells the client of it at once if
// that is little work and nobody waits: it spares waking the publisher, who does all else.
func (s *Service) tell(e *entry, event *eventlog.Event) {
	if event.Kind != eventlog.KindOutput || len(event.Data) > maxTellBytes || !e.turn.begin(event.Seq) {
		e.turn.leave()
		return
	}
	err := s.output(atOnce, e, event)
	told := err == nil || errors.Is(err, rpc.ErrClosed)
	if told {
		e.window.remove(len(event.Data))
	}
	e.turn.end(event.Seq, told)
}

// output tells the client of output.
func (s *Service) output(ctx context.Context, e *entry, event *eventlog.Event) error {
	return s.notifier.Notify(ctx, protocol.NotifyProcessOutput, &protocol.OutputParams{
		ProcessID: e.id, Seq: event.Seq, Stream: event.Stream, Chunk: event.Data,
	})
}

// notify tells the client of one event, waiting for a slow one. It returns false at
// the end of the service.
func (s *Service) notify(e *entry, event *eventlog.Event) bool {
	var err error
	switch event.Kind {
	case eventlog.KindOutput:
		err = s.output(s.lifetime, e, event)
		e.window.remove(len(event.Data))
	case eventlog.KindExited:
		err = s.notifier.Notify(s.lifetime, protocol.NotifyProcessExited, &protocol.ExitedParams{
			ProcessID: e.id, Seq: event.Seq, ExitCode: event.Exit.Code, SandboxDenied: event.Exit.SandboxDenied,
			Signal: event.Exit.Signal, TimedOut: event.Exit.TimedOut, Limit: event.Exit.Limit,
		})
	case eventlog.KindClosed:
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
