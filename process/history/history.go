// Package history tells clients which commands a server has run, and what they printed:
// processes of sessions and durable runs, those that are live too. It serves history/*
// from the log of commands, by the numbers that package eventlog gives them.
package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// readBytes is how much output one answer has, at most but for one chunk, and readEvents how
// many chunks.
const (
	readBytes  = 1 << 20
	readEvents = 4096
)

// Service serves history/* to any number of connections.
type Service struct{ rec *eventlog.Recorder }

// NewService makes a Service of what a Recorder has written.
func NewService(rec *eventlog.Recorder) *Service { return &Service{rec} }

// Close implements rpc.Service.
func (s *Service) Close() error { return nil }

// Register adds the methods of a *Service to t. Nothing waits for them.
func Register(t *rpc.Table) {
	rpc.Handle(t, rpc.Spec[protocol.HistoryParams]{Name: protocol.MethodHistoryList, Family: "history", Order: rpc.Always[protocol.HistoryParams](rpc.Concurrent)}, (*Service).list)
	rpc.Handle(t, rpc.Spec[protocol.HistoryReadParams]{Name: protocol.MethodHistoryRead, Family: "history", Order: rpc.Always[protocol.HistoryReadParams](rpc.Concurrent)}, (*Service).read)
}

// query is what a client asks for, with one command more to see whether there are others.
func query(p *protocol.HistoryParams) (q eventlog.Query) {
	q.Hidden = true
	limit := uint64(protocol.MaxHistoryLimit)
	q.Limit = int(min(limit, value(p.Limit, limit))) + 1
	q.Log, q.Before, q.EndAfter, q.ID, q.Client, q.Text = p.Number, p.Before, p.AfterEnd, p.ID, p.Client, value(p.Text, "")
	q.Live, q.Failed = value(p.Live, false), value(p.Failed, false)
	if p.SinceMs != nil {
		q.Started = time.UnixMilli(*p.SinceMs)
	}
	return q
}

func value[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}

// list serves history/list.
func (s *Service) list(ctx context.Context, p *protocol.HistoryParams) (*protocol.HistoryResult, error) {
	q := query(p)
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if q.EndAfter == nil {
		last, err := s.rec.Store().LastEnd(ctx)
		if err != nil {
			return nil, err
		}
		return s.listed(ctx, &q, last)
	}
	var result *protocol.HistoryResult
	err := s.wait(ctx, p.WaitMs, func(changed bool) (done bool, err error) {
		if !changed {
			return false, nil // output is no end
		}
		result, err = s.ends(ctx, &q)
		return err != nil || len(result.Commands) > 0 || result.More || result.LastEnd < *q.EndAfter, err
	})
	return result, err
}

// ends lists the commands that ended after an end, if there is a later one. It moves the
// query on to the last end that it has seen.
func (s *Service) ends(ctx context.Context, q *eventlog.Query) (*protocol.HistoryResult, error) {
	last, err := s.rec.Store().LastEnd(ctx)
	switch {
	case err != nil:
		return nil, err
	case last <= *q.EndAfter:
		return &protocol.HistoryResult{Commands: []protocol.HistoryCommand{}, LastEnd: last}, nil
	}
	result, err := s.listed(ctx, q, last)
	if err == nil && !result.More {
		q.EndAfter = &result.LastEnd
	}
	return result, err
}

// listed lists commands once. last is a last end from before: a command that ends meanwhile
// is listed twice rather than missed.
func (s *Service) listed(ctx context.Context, q *eventlog.Query, last int64) (*protocol.HistoryResult, error) {
	records, err := s.rec.Store().List(ctx, *q)
	if err != nil {
		return nil, err
	}
	result := &protocol.HistoryResult{LastEnd: last, More: len(records) == q.Limit}
	records = records[:min(len(records), q.Limit-1)]
	result.Commands = make([]protocol.HistoryCommand, len(records))
	for i := range records {
		result.Commands[i] = Command(&records[i])
	}
	switch n := len(records); {
	case q.EndAfter == nil:
	case n > 0 && (result.More || records[n-1].End > last):
		result.LastEnd = records[n-1].End
	case n == 0 && result.More:
		result.LastEnd = *q.EndAfter
	}
	return result, nil
}

// ready has the commands ended that an earlier server has left, if there is room for that.
func (s *Service) ready(ctx context.Context) error {
	if err := s.rec.Recover(ctx); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("open the history: %w", err)
	}
	return s.rec.Flush(ctx) // a client finds the command that it has just run
}

// sharedPause is the time between two looks at a store that other servers write to: their
// writes announce nothing here.
const sharedPause = 250 * time.Millisecond

// wait calls look until it returns true or an error, or the time is over: at once, and then
// when something has been written. news says that a command may have begun or ended since.
func (s *Service) wait(ctx context.Context, ms *uint64, look func(news bool) (done bool, err error)) error {
	changed, version := s.rec.Changed()
	if done, err := look(true); done || err != nil || value(ms, 0) == 0 {
		return err
	}
	rpc.Async(ctx)
	timer := time.NewTimer(time.Duration(min(*ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond)
	defer timer.Stop()
	var pause <-chan time.Time
	if s.rec.Shared() {
		ticker := time.NewTicker(sharedPause)
		defer ticker.Stop()
		pause = ticker.C
	}
	for {
		news := false
		select {
		case <-changed:
		case <-pause:
			news = true
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
		before := version
		changed, version = s.rec.Changed()
		if done, err := look(news || version != before); done || err != nil {
			return err
		}
	}
}

// read serves history/read.
func (s *Service) read(ctx context.Context, p *protocol.HistoryReadParams) (*protocol.HistoryReadResult, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	var about *eventlog.Record
	var result *protocol.HistoryReadResult
	err := s.wait(ctx, p.WaitMs, func(news bool) (done bool, err error) {
		if news { // before the events are read: a command has ended only behind the last of them
			if about, err = s.find(ctx, p.Number); err != nil {
				return false, err
			}
		}
		result, err = s.page(ctx, p, about)
		return err != nil || len(result.Chunks) > 0 || result.Ended || result.Missing != nil, err
	})
	return result, err
}

// find returns what is known of a command.
func (s *Service) find(ctx context.Context, number int64) (*eventlog.Record, error) {
	found, err := s.rec.Store().List(ctx, eventlog.Query{Log: &number, Hidden: true, Limit: 1})
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "there is no command %d in the history", number)
	}
	return &found[0], nil
}

// page reads once.
func (s *Service) page(ctx context.Context, p *protocol.HistoryReadParams, about *eventlog.Record) (*protocol.HistoryReadResult, error) {
	after := value(p.AfterSeq, 0)
	events, err := s.rec.Store().Read(ctx, p.Number, after, int(min(value(p.MaxBytes, readBytes), readBytes)), readEvents)
	if err != nil {
		return nil, err
	}
	result := &protocol.HistoryReadResult{Command: Command(about)}
	if result.Missing, err = s.missing(ctx, about, after, events); err != nil {
		return nil, err
	}
	for _, e := range events {
		if e.Kind == eventlog.KindOutput {
			result.Chunks = append(result.Chunks, protocol.OutputChunk{Seq: e.Seq, Stream: e.Stream, Chunk: e.Data})
		}
	}
	result.Ended = about.Ended && len(result.Chunks) == 0
	return result, nil
}

// missing returns the events that are not kept between after and the first that was read.
func (s *Service) missing(ctx context.Context, about *eventlog.Record, after uint64, events []eventlog.Event) (*protocol.MissingEvents, error) {
	gap := &protocol.MissingEvents{From: after + 1}
	if len(events) == 0 {
		disposed := about.Ended && about.Bytes == 0 && about.Printed > 0
		switch {
		case disposed && about.Last == 0: // while it was live
			return gap, nil
		case disposed && after+1 < about.Last: // the last is its exit
			gap.To = new(about.Last - 1)
			return gap, nil
		}
		return nil, nil
	}
	first := events[0].Seq
	if first <= after+1 {
		return nil, nil
	}
	if first == after+2 && about.Exit != nil && after > 0 {
		// Logs of earlier versions have no event for the exit. The oldest events go first: if
		// the one before is there, none is missing.
		before, err := s.rec.Store().Read(ctx, about.Log, after-1, 0, 1)
		if err != nil || len(before) > 0 && before[0].Seq == after {
			return nil, err
		}
	}
	gap.To = new(first - 1)
	return gap, nil
}

// Command returns what a client learns about a command.
func Command(r *eventlog.Record) protocol.HistoryCommand {
	c := protocol.HistoryCommand{
		Number: r.Log, ID: r.ID, Durable: r.Origin == eventlog.OriginRun, SessionID: r.SessionID, Client: r.Client, Peer: r.Peer,
		PID: r.PID, Argv: r.Argv, Cwd: r.Cwd, TTY: r.TTY, SandboxType: r.Sandbox, StartedAtMs: r.Started.UnixMilli(),
		Bytes: r.Printed, KeptBytes: r.Bytes,
	}
	if r.Ended {
		ended := r.At.UnixMilli()
		c.EndedAtMs = &ended
	}
	if exit := r.Exit; exit != nil {
		c.ExitCode, c.Signal, c.TimedOut, c.Limit = &exit.Code, exit.Signal, exit.TimedOut, exit.Limit
	}
	return c
}
