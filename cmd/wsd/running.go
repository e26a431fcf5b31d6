package main

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/client"
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
	Number    int64     `json:"number"`  // in the history; 0 if there is none

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
	if truncated, err = addRuns(ctx, c, ended, &list); err != nil {
		return nil, false, err
	}
	if ended {
		if err := addEnded(ctx, c, &list); err != nil {
			return nil, false, err
		}
	}
	slices.SortStableFunc(list, func(a, b psEntry) int { return a.StartedAt.Compare(b.StartedAt) })
	return list, truncated, nil
}

// addRuns adds the durable runs.
func addRuns(ctx context.Context, c *client.Client, ended bool, list *[]psEntry) (truncated bool, err error) {
	durable, err := c.Supports(ctx, protocol.CapShellList)
	if err != nil || !durable {
		return false, err
	}
	runs, truncated, err := c.Runs(ctx, ended)
	if err != nil {
		return false, err
	}
	info, err := c.Environment(ctx)
	if err != nil {
		return false, err
	}
	for i := range runs {
		*list = append(*list, durableEntry(&runs[i], info.WorkspaceMount))
	}
	return truncated, nil
}

// addEnded adds the processes of the history that have ended and are not listed.
func addEnded(ctx context.Context, c *client.Client, list *[]psEntry) error {
	result, err := c.History(ctx, protocol.HistoryParams{})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	listed := make(map[int64]bool)
	for i := range *list {
		listed[(*list)[i].Number] = true
	}
	for i := range result.Commands {
		if cmd := &result.Commands[i]; !cmd.Durable && cmd.EndedAtMs != nil && !listed[cmd.Number] {
			*list = append(*list, processEntry(&protocol.ProcessInfo{
				SessionID: cmd.SessionID, ProcessID: cmd.ID, PID: cmd.PID, Argv: cmd.Argv, Cwd: cmd.Cwd, TTY: cmd.TTY, StartedAtMs: cmd.StartedAtMs,
				Exited: true, ExitCode: cmd.ExitCode, SandboxType: cmd.SandboxType, Number: cmd.Number,
			}))
		}
	}
	return nil
}

func processEntry(p *protocol.ProcessInfo) psEntry {
	return psEntry{
		ProcessID: p.ProcessID, SessionID: p.SessionID, PID: &p.PID, Argv: p.Argv, Cwd: cwdPath(p.Cwd), TTY: p.TTY,
		StartedAt: time.UnixMilli(p.StartedAtMs).UTC(), Exited: p.Exited, ExitCode: p.ExitCode, Sandbox: p.SandboxType,
		Number: p.Number, line: commandLine(p.Argv),
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
		Number: r.Number, line: oneLine(r.Command),
	}
}
