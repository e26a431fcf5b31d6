package process

import (
	"context"
	"math"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// read serves process/read (exec-rpc.md, section 3.7).
func (s *Service) read(ctx context.Context, p *protocol.ReadParams) (*protocol.ReadResult, error) {
	e, err := s.findIn(ctx, p.SessionID, p.ProcessID)
	if err != nil {
		return nil, err
	}
	if e == nil {
		if !s.cfg.Durable {
			return nil, unknownProcess(p.ProcessID)
		}
		rpc.Async(ctx) // the requests behind this one are not to wait for the store
		return readRecorded(ctx, s.cfg.Recorder.Store(), p)
	}
	defer e.release()

	wait := p.WaitMs != nil && *p.WaitMs > 0
	if !wait {
		result, _, err := e.read(p)
		return result, err
	}
	var timeout <-chan time.Time
	for {
		changed := e.changed.Next()
		result, worth, err := e.read(p)
		if err != nil || worth || !wait {
			return result, err
		}
		if timeout == nil { // the first time
			rpc.Async(ctx)
			timer := time.NewTimer(milliseconds(*p.WaitMs))
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			wait = false
		case <-ctx.Done(): // the connection ends: say what is known
			wait = false
		}
	}
}

// read returns the state of the process and the chunks after p.AfterSeq, and whether
// that is worth an answer to a client that would rather wait.
func (e *entry) read(p *protocol.ReadParams) (*protocol.ReadResult, bool, error) {
	after, maxBytes := bounds(p)
	failure := e.failed()
	page, err := e.log.Read(nil, after, maxBytes)
	if err != nil {
		return nil, false, err
	}
	result := readResult(&page, maxBytes, failure)
	if failure != nil { // the log does not have the end
		result.Exited, result.Closed = e.gone()
	}
	unseenExit := page.Exit != nil && page.Next > 0 && after < page.Next-1
	return result, len(result.Chunks) > 0 || page.Closed || unseenExit || failure != nil, nil
}

// bounds are the number after which output is wanted, and how much of it: -1 for all.
func bounds(p *protocol.ReadParams) (after uint64, maxBytes int) {
	if p.AfterSeq != nil {
		after = *p.AfterSeq
	}
	if p.MaxBytes == nil {
		return after, -1
	}
	return after, int(min(*p.MaxBytes, math.MaxInt32))
}

func readResult(page *eventlog.Page, maxBytes int, failure *string) *protocol.ReadResult {
	result := &protocol.ReadResult{NextSeq: page.Next, Closed: page.Closed, Failure: failure}
	for _, event := range page.Events {
		if event.Kind == eventlog.KindOutput {
			result.Chunks = append(result.Chunks, protocol.OutputChunk{Seq: event.Seq, Stream: event.Stream, Chunk: event.Data})
		}
	}
	if n := len(result.Chunks); n > 0 && maxBytes >= 0 {
		result.NextSeq = result.Chunks[n-1].Seq + 1
	}
	if exit := page.Exit; exit != nil {
		result.Exited, result.ExitCode = true, &exit.Code
		result.SandboxDenied, result.Signal, result.TimedOut = exit.SandboxDenied, exit.Signal, exit.TimedOut
		result.Limit = exit.Limit
	}
	return result
}
