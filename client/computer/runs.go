package computer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// Exec implements shell.Runs.
func (c *Client) Exec(ctx context.Context, r shell.Request) (string, shell.Events, error) {
	in := wire.ExecInput{Command: r.Command, Source: r.Command, Cwd: r.Cwd, ID: r.ID, Env: r.Env, Stdin: r.Stdin}
	if r.Timeout != nil {
		ms := float64(*r.Timeout) / float64(time.Millisecond)
		in.TimeoutMs = &ms
	}
	return c.run(ctx, "shell.exec", in)
}

// GetExec implements shell.Runs.
func (c *Client) GetExec(ctx context.Context, id string, after shell.After) (shell.Events, error) {
	in := wire.GetExecInput{ID: id}
	switch {
	case after.Tail:
		in.After = "tail"
	case after.Seq > 0:
		in.After = after.Seq
	}
	_, events, err := c.run(ctx, "shell.getExec", in)
	return events, err
}

func (c *Client) run(ctx context.Context, method string, in any) (string, shell.Events, error) {
	var r wire.Run[wire.Event]
	if err := c.call(ctx, &r, method, in); err != nil {
		return "", nil, c.runError(err)
	}
	if r.Events.IsZero() {
		return "", nil, errors.New("the computer has answered without a stream")
	}
	return r.ID, &events{c, r.Events}, nil
}

// KillExec implements shell.Runs.
func (c *Client) KillExec(ctx context.Context, id, signal string) error {
	return c.runError(c.call(ctx, nil, "shell.killExec", wire.KillExecInput{ID: id, Signal: signal}))
}

// DisposeExec implements shell.Runs.
func (c *Client) DisposeExec(ctx context.Context, id string) error {
	return c.runError(c.call(ctx, nil, "shell.disposeExec", wire.DisposeExecInput{ID: id}))
}

// events are those of one run.
type events struct {
	c *Client
	s capnweb.Stream[wire.Event]
}

// Next implements shell.Events.
func (e *events) Next(ctx context.Context) (shell.Event, error) {
	w, err := e.s.Next(ctx)
	if err != nil {
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			err = e.c.runError(e.c.lost(err))
		}
		return shell.Event{}, err
	}
	out := shell.Event{ID: w.ID, Seq: w.Seq, Name: w.Name}
	switch v := w.Value.(type) {
	case []byte:
		out.Data = v
	case float64: // of the first computers, which call the code so
		out.Code = int(v)
	}
	if w.Code != nil {
		out.Code = int(*w.Code)
	}
	switch w.Name {
	case shell.Stdout, shell.Stderr, shell.Exit:
		return out, nil
	}
	return out, fmt.Errorf("the computer has sent an event called %.40q", w.Name)
}

var errUnfollowed = &capnweb.Error{Message: "the run is not followed any more"}

// Close implements shell.Events. The computer learns of it with the next event.
func (e *events) Close() { e.s.Cancel(errUnfollowed) }
