package computer

import (
	"context"
	"errors"
	"math"
	"time"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// shellTarget is the object called shell. s is the session that it is for.
func shellTarget(runs shell.Runs, s *session) *capnweb.Target {
	h := &sheller{runs, s}
	t := capnweb.NewTarget()
	// What comes behind it may be about the run.
	t.Handle("exec", capnweb.InOrder(capnweb.Func1(h.exec)))
	t.Handle("getExec", capnweb.Func1(h.getExec))
	t.Handle("killExec", capnweb.Func1(h.killExec))
	t.Handle("disposeExec", capnweb.Func1(h.disposeExec))
	return t
}

// clientName stands for clients of this wire in the history: they give no name.
const clientName = "computer"

type sheller struct {
	runs    shell.Runs
	session *session
}

// execInput is the argument of shell.exec. The command is called command by the first
// clients and source by the later ones.
type execInput struct {
	Command   any `json:"command"`
	Source    any `json:"source"`
	Cwd       any `json:"cwd"`
	ID        any `json:"id"`
	Env       any `json:"env"`
	Stdin     any `json:"stdin"`
	TimeoutMs any `json:"timeoutMs"`
}

func (h *sheller) exec(ctx context.Context, in execInput) (out wire.Run[any], err error) {
	r, err := in.request()
	if err != nil {
		return out, err
	}
	if r.Client = clientName; h.session != nil {
		r.Peer = h.session.remote
	}
	id, events, err := h.runs.Exec(ctx, r)
	if err != nil {
		return out, err
	}
	return wire.Run[any]{ID: id, Events: h.send(id, events)}, nil
}

func (h *sheller) getExec(ctx context.Context, in wire.GetExecInput) (out wire.Run[any], err error) {
	after, err := afterOf(in.After)
	if err != nil {
		return out, err
	}
	events, err := h.runs.GetExec(ctx, in.ID, after)
	if errors.Is(err, &protocol.NamedError{Code: "EEXEC_BUSY"}) && h.session.freeFollower(ctx, in.ID) {
		events, err = h.runs.GetExec(ctx, in.ID, after)
	}
	if err != nil {
		return out, err
	}
	return wire.Run[any]{ID: in.ID, Events: h.send(in.ID, events)}, nil
}

func (h *sheller) killExec(ctx context.Context, in wire.KillExecInput) (none capnweb.Undefined, err error) {
	return none, h.runs.KillExec(ctx, in.ID, in.Signal)
}

func (h *sheller) disposeExec(ctx context.Context, in wire.DisposeExecInput) (none capnweb.Undefined, err error) {
	return none, h.runs.DisposeExec(ctx, in.ID)
}

// send makes a stream of a run's events, which the session follows until its end.
func (h *sheller) send(id string, events shell.Events) capnweb.Stream[any] {
	unfollow := h.session.follows(id)
	return wire.Send(&followed{events, unfollow}, eventOf).WithWindow(EventWindow)
}

// followed are events as a stream.
type followed struct {
	shell.Events
	unfollow func()
}

// Close implements changes.Stream.
func (f *followed) Close(error) {
	f.Events.Close()
	f.unfollow()
}

func eventOf(e shell.Event) (any, error) {
	if e.Name == shell.Exit {
		return &wire.ExitEvent{ID: e.ID, Seq: e.Seq, Name: e.Name, Value: e.Code, Code: e.Code}, nil
	}
	return &wire.OutputEvent{ID: e.ID, Seq: e.Seq, Name: e.Name, Value: e.Data}, nil
}

func (in *execInput) request() (r shell.Request, err error) {
	command, ok := in.Command.(string)
	if !ok {
		command, ok = in.Source.(string)
	}
	if !ok {
		return r, invalidf("exec needs the command as source or command")
	}
	r.Command = command
	if r.Cwd, err = optional[string](in.Cwd, "cwd", "a string"); err != nil {
		return r, err
	}
	if r.ID, err = optional[string](in.ID, "id", "a string"); err != nil {
		return r, err
	}
	if len(r.ID) > MaxIDBytes {
		return r, invalidf("id must not be longer than %d bytes", MaxIDBytes)
	}
	if text, ok := in.Stdin.(string); ok {
		r.Stdin = []byte(text)
	} else if r.Stdin, err = optional[[]byte](in.Stdin, "stdin", "bytes or a string"); err != nil {
		return r, err
	}
	if r.Env, err = environment(in.Env); err != nil {
		return r, err
	}
	r.Timeout, err = timeout(in.TimeoutMs)
	return r, err
}

// optional returns v where it is a T, and nothing where it was left out.
func optional[T any](v any, name, kind string) (out T, err error) {
	switch v := v.(type) {
	case nil, capnweb.Undefined:
		return out, nil
	case T:
		return v, nil
	}
	return out, invalidf("%s must be %s", name, kind)
}

func environment(v any) (map[string]string, error) {
	members, err := optional[capnweb.Object](v, "env", "an object")
	if err != nil || members == nil {
		return nil, err
	}
	env := make(map[string]string, len(members))
	for _, m := range members {
		if _, none := m.Value.(capnweb.Undefined); none {
			continue
		}
		text, ok := m.Value.(string)
		if !ok {
			return nil, invalidf("env must have strings only")
		}
		env[m.Name] = text
	}
	return env, nil
}

// timeout is the time of milliseconds, nil where there are none. What is too long to be
// counted is for ever.
func timeout(v any) (*time.Duration, error) {
	ms, err := optional[float64](v, "timeoutMs", "a number")
	if err != nil {
		return nil, err
	}
	if _, given := v.(float64); !given {
		return nil, nil
	}
	if math.IsNaN(ms) || ms < 0 {
		return nil, invalidf("timeoutMs must not be negative")
	}
	var d time.Duration
	if ms < float64(math.MaxInt64/time.Millisecond) {
		d = time.Duration(ms * float64(time.Millisecond))
		if d == 0 && ms > 0 {
			d = 1
		}
	}
	return &d, nil
}

// afterOf is the point from which to follow: a number, "tail", or nothing.
func afterOf(v any) (shell.After, error) {
	if text, ok := v.(string); ok && text == "tail" {
		return shell.After{Tail: true}, nil
	}
	n, err := optional[float64](v, "after", `a number or "tail"`)
	switch {
	case err != nil:
		return shell.After{}, err
	case math.IsNaN(n) || n != math.Trunc(n) && !math.IsInf(n, 0):
		return shell.After{}, invalidf("after must be a whole number")
	case n >= 1<<53:
		return shell.After{Seq: 1 << 53}, nil
	}
	return shell.After{Seq: uint64(max(n, 0))}, nil
}
