package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

// Terminate kills the process and its group at once, if it still runs. It does not
// wait for the exit.
func (p *Process) Terminate(ctx context.Context) error {
	return p.client.repeat(ctx, protocol.MethodProcessTerminate, &protocol.TerminateParams{ProcessID: p.id}, nil)
}

// Signal sends a signal to the process's group: "INT", "SIGTERM", "15". All but
// SIGINT need the capability processSignals.
func (p *Process) Signal(ctx context.Context, signal string) error {
	return p.client.signal(ctx, &protocol.SignalParams{ProcessID: p.id, Signal: signal})
}

// Resize sets the size of the process's PTY. It needs the capability processResize.
func (p *Process) Resize(ctx context.Context, size protocol.TerminalSize) error {
	if err := p.client.need(ctx, protocol.CapProcessResize); err != nil {
		return err
	}
	return p.client.repeat(ctx, protocol.MethodProcessResize,
		&protocol.ResizeParams{ProcessID: p.id, Rows: size.Rows, Cols: size.Cols}, nil)
}

// CloseStdin is Stdin.Close.
func (p *Process) CloseStdin() error { return p.Stdin.Close() }

// Scopes of Processes.
const (
	ScopeSession = "session"
	ScopeServer  = "server"
)

// Processes lists the processes of this session or of the whole server, the oldest
// first. It needs the capability processList.
func (c *Client) Processes(ctx context.Context, scope string) ([]protocol.ProcessInfo, error) {
	if err := c.need(ctx, protocol.CapProcessList); err != nil {
		return nil, err
	}
	var result protocol.ListResult
	err := c.call(ctx, protocol.MethodProcessList, &protocol.ListParams{Scope: &scope}, &result)
	return result.Processes, err
}

// SignalProcess sends a signal to the group of a process that Processes listed.
func (c *Client) SignalProcess(ctx context.Context, sessionID, processID, signal string) error {
	if err := c.need(ctx, protocol.CapProcessList); err != nil {
		return err
	}
	return c.signal(ctx, &protocol.SignalParams{ProcessID: processID, Signal: signal, SessionID: &sessionID})
}

// TerminateProcess kills a process that Processes listed, with its group, and reports
// whether it was running.
func (c *Client) TerminateProcess(ctx context.Context, sessionID, processID string) (bool, error) {
	if err := c.need(ctx, protocol.CapProcessList); err != nil {
		return false, err
	}
	var result protocol.TerminateResult
	err := c.repeat(ctx, protocol.MethodProcessTerminate,
		&protocol.TerminateParams{ProcessID: processID, SessionID: &sessionID}, &result)
	return result.Running, err
}

// interrupt is the one signal of the original wire.
const interrupt = "interrupt"

func (c *Client) signal(ctx context.Context, params *protocol.SignalParams) error {
	switch strings.TrimPrefix(strings.ToUpper(params.Signal), "SIG") {
	case "INT", "2", "INTERRUPT":
		params.Signal = interrupt
	case "":
		return fmt.Errorf("no signal given")
	default:
		if err := c.need(ctx, protocol.CapProcessSignals); err != nil {
			return err
		}
	}
	return c.call(ctx, protocol.MethodProcessSignal, params, nil)
}
