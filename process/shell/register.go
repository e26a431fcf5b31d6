package shell

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
)

// Service serves shell/* on one connection. Runs live on when the connection ends.
type Service struct {
	runs         ListedRuns
	streams      *stream.Set
	client, peer string

	mu       sync.Mutex
	followed map[string]*stream.Out // the latest by the run's id
}

// NewService makes the Service of a connection whose streams are those of a Set, which is
// bound beside it and closed after it. All connections have the same Runs.
func NewService(runs ListedRuns, streams *stream.Set) *Service {
	return &Service{runs: runs, streams: streams, followed: make(map[string]*stream.Out)}
}

// SetClient says who the client is, before the first request.
func (s *Service) SetClient(name, peer string) { s.client, s.peer = name, peer }

// Close implements rpc.Service. The streams end with their Set.
func (s *Service) Close() error { return nil }

// laneRuns is held by what makes a run known, or forgotten.
const laneRuns = "shell"

// starts is the order of a start, but for its id.
var starts = rpc.Shared(laneRuns).And(rpc.ReadsFiles, rpc.SeenByWatches)

// known returns the lane of the requests that create or forget the run id.
func known(id string) string { return laneRuns + ":" + id }

// Register adds the methods of a *Service to t, but not the notifications of streams.
// They run beside each other: a start that takes its time holds up only what is about
// the same run, the list, and changes of files.
func Register(t *rpc.Table) {
	handle(t, protocol.MethodShellExec, (*Service).exec, func(p *protocol.ExecParams) rpc.Order {
		if p.ID == nil {
			return starts
		}
		return starts.And(rpc.Serial(known(*p.ID)))
	})
	handle(t, protocol.MethodShellGetExec, (*Service).getExec, func(p *protocol.GetExecParams) rpc.Order { return rpc.Behind(known(p.ID)) })
	handle(t, protocol.MethodShellKillExec, (*Service).killExec, func(p *protocol.KillExecParams) rpc.Order {
		return rpc.Urgent(rpc.Behind(known(p.ID)))
	})
	handle(t, protocol.MethodShellDisposeExec, (*Service).disposeExec, func(p *protocol.DisposeExecParams) rpc.Order {
		return rpc.Shared(laneRuns).And(rpc.Serial(known(p.ID)))
	})
	handle(t, protocol.MethodShellList, (*Service).list, func(*protocol.ListExecsParams) rpc.Order { return rpc.BehindAll(laneRuns) })
}

func handle[P, R any](t *rpc.Table, method string, fn func(*Service, context.Context, *P) (R, error), order func(*P) rpc.Order) {
	rpc.Handle(t, rpc.Spec[P]{Name: method, Family: "shell", Order: order}, func(s *Service, ctx context.Context, p *P) (R, error) {
		rpc.Yield(ctx)
		result, err := fn(s, ctx, p)
		return result, answerError(err)
	})
}

func (s *Service) exec(ctx context.Context, p *protocol.ExecParams) (*protocol.ExecResult, error) {
	request, err := requestOf(p)
	if err != nil {
		return nil, err
	}
	request.Client, request.Peer = s.client, s.peer
	out, err := s.streams.Reserve(p.Window, protocol.ShellWindow)
	if err != nil {
		return nil, err
	}
	id, events, err := s.runs.Exec(ctx, request)
	if err != nil {
		out.Release()
		return nil, err
	}
	return s.follow(ctx, id, out, events), nil
}

func requestOf(p *protocol.ExecParams) (Request, error) {
	r := Request{Env: p.Env}
	switch {
	case p.Command != nil:
		r.Command = *p.Command
	case p.Source != nil:
		r.Command = *p.Source
	default:
		return r, protocol.NamedErrorf(CodeInvalid, "there is no command")
	}
	if p.Cwd != nil {
		r.Cwd = *p.Cwd
	}
	if p.ID != nil {
		r.ID = *p.ID
	}
	if p.Stdin != nil {
		r.Stdin = *p.Stdin
	}
	if p.TimeoutMs != nil {
		d := time.Duration(min(*p.TimeoutMs, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
		r.Timeout = &d
	}
	return r, nil
}

func (s *Service) getExec(ctx context.Context, p *protocol.GetExecParams) (*protocol.ExecResult, error) {
	var after After
	if p.After != nil {
		after = After{Seq: p.After.Seq, Tail: p.After.Tail}
	}
	if err := s.awaitCancelled(ctx, p.ID); err != nil {
		return nil, err
	}
	out, err := s.streams.Reserve(p.Window, protocol.ShellWindow)
	if err != nil {
		return nil, err
	}
	events, err := s.runs.Follow(ctx, p.ID, after)
	if err != nil {
		out.Release()
		return nil, err
	}
	return s.follow(ctx, p.ID, out, events), nil
}

// awaitCancelled waits until a run is followed no more whose stream the client has
// cancelled before it asked for another.
func (s *Service) awaitCancelled(ctx context.Context, id string) error {
	s.mu.Lock()
	out := s.followed[id]
	s.mu.Unlock()
	if out == nil || !out.Stopped() {
		return nil
	}
	select {
	case <-out.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow sends the events of a run behind the answer.
func (s *Service) follow(ctx context.Context, id string, out *stream.Out, events Events) *protocol.ExecResult {
	result := &protocol.ExecResult{ID: id, Events: out.Ref()}
	if f, ok := events.(interface{ Snapshot() (uint64, bool) }); ok {
		last, ended := f.Snapshot()
		result.LastSeq, result.Ended = &last, &ended
	}
	var ready func() bool
	if f, ok := events.(interface{ Ready() bool }); ok {
		ready = f.Ready
	}
	s.mu.Lock()
	s.followed[id] = out
	s.mu.Unlock()
	var sent []byte
	out.Send(ctx, stream.Source{
		Next: func(ctx context.Context) (any, error) {
			eventlog.ReleaseChunk(sent) // it is encoded
			sent = nil
			e, err := events.Next(ctx)
			if err != nil {
				return nil, err
			}
			sent = e.Data
			return protocol.ExecEvent{ID: e.ID, Seq: e.Seq, Name: e.Name, Data: e.Data, Code: e.Code}, nil
		},
		Close: func(error) {
			events.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.followed[id] == out {
				delete(s.followed, id)
			}
		},
		Eager: true, Ready: ready,
	})
	return result
}

func (s *Service) killExec(ctx context.Context, p *protocol.KillExecParams) (*protocol.Empty, error) {
	var signal string
	if p.Signal != nil {
		signal = *p.Signal
	}
	return &protocol.Empty{}, s.runs.KillExec(ctx, p.ID, signal)
}

func (s *Service) disposeExec(ctx context.Context, p *protocol.DisposeExecParams) (*protocol.Empty, error) {
	return &protocol.Empty{}, s.runs.DisposeExec(ctx, p.ID)
}

// answerError is what a client is told of an error.
func answerError(err error) error {
	if e, ok := errors.AsType[*protocol.NamedError](err); ok {
		return e.Answer()
	}
	return err
}

// Snapshot is the number of the last event that there was when following began, and
// whether that is the run's last.
func (f *follower) Snapshot() (last uint64, ended bool) {
	r := f.run
	if r == nil {
		return f.last, true
	}
	r.mu.Lock() // another follower may leave, and this one hold the command up from then on
	defer r.mu.Unlock()
	return f.joined, false
}
