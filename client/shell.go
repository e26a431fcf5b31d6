package client

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// NoTimeout lets a durable run take as long as it takes.
const NoTimeout time.Duration = -1

// DurableCommand is what to run in a shell of the workspace.
type DurableCommand struct {
	// Line is given to /bin/sh -c.
	Line string
	// Dir is where it runs, as the workspace has paths; "" is its default.
	Dir string
	// Env is added to the environment that the server gives its runs.
	Env map[string]string
	// Stdin is all that the command has to read.
	Stdin []byte
	// Timeout ends the command, SIGTERM first and SIGKILL some seconds later. 0 is the
	// server's own time, of minutes; NoTimeout is none.
	Timeout time.Duration
	// ID is the run's name at the server, for all clients. "" means one that the Client
	// chooses. One of a run that has ended is given to the new run.
	ID string
}

// Exec starts a durable run: its output is kept at the server, so that it can be followed
// from any point, by any client, also after a restart; it goes on when nobody follows it.
// That it could not be started is told by its events. It needs the capability shell.
//
// When the answer is lost with the connection, Exec looks for the run at the server. If it
// is not there the error is ErrMayHaveRun.
func (c *Client) Exec(ctx context.Context, cmd DurableCommand) (*Run, error) {
	if err := c.need(ctx, protocol.CapShell); err != nil {
		return nil, err
	}
	r := c.newRun(cmd.ID)
	if r.id == "" {
		r.id = strings.ToLower(rand.Text())
	}
	window := int64(protocol.ShellWindow)
	params := &protocol.ExecParams{Command: &cmd.Line, ID: &r.id, Env: maps.Clone(cmd.Env), Window: &window}
	if cmd.Dir != "" {
		params.Cwd = &cmd.Dir
	}
	if cmd.Stdin != nil {
		stdin := protocol.Bytes(cmd.Stdin)
		params.Stdin = &stdin
	}
	if cmd.Timeout != 0 {
		ms := uint64(0)
		if cmd.Timeout > 0 {
			ms = uint64(max(cmd.Timeout.Milliseconds(), 1))
		}
		params.TimeoutMs = &ms
	}
	err := r.open(ctx, protocol.MethodShellExec, window, params)
	if err == nil {
		return r, nil
	}
	if !errors.Is(err, ErrMayHaveRun) || ctx.Err() != nil || c.Err() != nil {
		return nil, err
	}
	if r.again(ctx) != nil {
		return nil, err
	}
	return r, nil
}

// GetExec follows a durable run from behind the event of a number, 0 for the beginning.
// Events that the server does not keep any more are left out. A run that is not known, or
// not any more, is an *Error named ENOENT; an older server refuses a second follower of a
// live run with EEXEC_BUSY.
func (c *Client) GetExec(ctx context.Context, id string, after uint64) (*Run, error) {
	return c.getExec(ctx, id, protocol.ExecAfter{Seq: after})
}

// TailExec follows a durable run from the present on.
func (c *Client) TailExec(ctx context.Context, id string) (*Run, error) {
	return c.getExec(ctx, id, protocol.ExecAfter{Tail: true})
}

func (c *Client) getExec(ctx context.Context, id string, after protocol.ExecAfter) (*Run, error) {
	if err := c.need(ctx, protocol.CapShell); err != nil {
		return nil, err
	}
	r := c.newRun(id)
	r.after = after
	for {
		err := r.get(ctx)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, ErrMayHaveRun) || ctx.Err() != nil || c.Err() != nil {
			return nil, err
		}
	}
}

// Runs lists the durable runs of the server that are live and, with ended, those that have
// ended and are kept, the oldest first. truncated says that the oldest that have ended are
// left out. It needs the capability shellList.
func (c *Client) Runs(ctx context.Context, ended bool) (runs []protocol.ExecInfo, truncated bool, err error) {
	if err := c.need(ctx, protocol.CapShellList); err != nil {
		return nil, false, err
	}
	var result protocol.ListExecsResult
	err = c.repeat(ctx, protocol.MethodShellList, &protocol.ListExecsParams{Ended: &ended}, &result)
	return result.Runs, result.Truncated, err
}

// KillExec sends a signal to the group of a durable run: SIGTERM, which "" is too,
// SIGKILL, SIGINT or SIGHUP. A run that has ended is left alone.
func (c *Client) KillExec(ctx context.Context, id, signal string) error {
	if err := c.need(ctx, protocol.CapShell); err != nil {
		return err
	}
	params := &protocol.KillExecParams{ID: id}
	if signal != "" {
		params.Signal = &signal
	}
	return c.call(ctx, protocol.MethodShellKillExec, params, nil)
}

// DisposeExec forgets a durable run and kills it if it is live. One that is not known is
// no error.
func (c *Client) DisposeExec(ctx context.Context, id string) error {
	if err := c.need(ctx, protocol.CapShell); err != nil {
		return err
	}
	return c.repeat(ctx, protocol.MethodShellDisposeExec, &protocol.DisposeExecParams{ID: id}, nil)
}
