package main

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// A psEntry is a process of a session or a durable run, as 'wsd ps --json' prints it.
type psEntry struct {
	ProcessID string    `json:"processId"`
	SessionID string    `json:"sessionId"` // "" of a durable run
	Durable   bool      `json:"durable"`
	PID       *int      `json:"pid"` // null of a durable run that has ended or could not be started
	Argv      []string  `json:"argv"`
	Cwd       string    `json:"cwd"` // a path
	TTY       bool      `json:"tty"`
	StartedAt time.Time `json:"startedAt"`
	Exited    bool      `json:"exited"`
	ExitCode  *int      `json:"exitCode"`
	Sandbox   string    `json:"sandbox"` // "none", or the kind of sandbox it runs in

	line string // for people
}

// psList lists what the server runs, the oldest first, and with ended what has exited too.
// truncated says that the oldest durable runs that have ended are left out.
func psList(ctx context.Context, c *client.Client, ended bool) (list []psEntry, truncated bool, err error) {
	processes, err := c.Processes(ctx, client.ScopeServer)
	if err != nil {
		return nil, false, err
	}
	list = make([]psEntry, 0, len(processes))
	for i := range processes {
		if ended || !processes[i].Exited {
			list = append(list, processEntry(&processes[i]))
		}
	}
	durable, err := c.Supports(ctx, protocol.CapShellList)
	if err != nil || !durable {
		return list, false, err
	}
	runs, truncated, err := c.Runs(ctx, ended)
	if err != nil {
		return nil, false, err
	}
	info, err := c.Environment(ctx)
	if err != nil {
		return nil, false, err
	}
	for i := range runs {
		list = append(list, durableEntry(&runs[i], info.WorkspaceMount))
	}
	slices.SortStableFunc(list, func(a, b psEntry) int { return a.StartedAt.Compare(b.StartedAt) })
	return list, truncated, nil
}

func processEntry(p *protocol.ProcessInfo) psEntry {
	cwd, err := fileuri.Path(p.Cwd)
	if err != nil {
		cwd = p.Cwd
	}
	return psEntry{
		ProcessID: p.ProcessID, SessionID: p.SessionID, PID: &p.PID, Argv: p.Argv, Cwd: cwd, TTY: p.TTY,
		StartedAt: time.UnixMilli(p.StartedAtMs).UTC(), Exited: p.Exited, ExitCode: p.ExitCode, Sandbox: p.SandboxType,
		line: commandLine(p.Argv),
	}
}

func durableEntry(r *protocol.ExecInfo, mount string) psEntry {
	cwd := r.Cwd
	if !path.IsAbs(cwd) {
		cwd = path.Join(mount, cwd)
	}
	return psEntry{
		ProcessID: r.ID, Durable: true, PID: r.PID, Argv: []string{"/bin/sh", "-c", r.Command}, Cwd: cwd,
		StartedAt: time.UnixMilli(r.StartedAtMs).UTC(), Exited: r.Exited, ExitCode: r.ExitCode, Sandbox: protocol.SandboxNone,
		line: oneLine(r.Command),
	}
}
