package protocol

// MethodShellList lists durable runs.
const MethodShellList = "shell/list"

// CapShellList announces MethodShellList.
const CapShellList = "shellList"

// ListExecsParams says which runs to list.
type ListExecsParams struct {
	// Ended asks for those too that have ended and are kept.
	Ended *bool `json:"ended,omitempty" wire:"nullable"`
}

// ListExecsResult has the runs, the oldest first.
type ListExecsResult struct {
	Runs []ExecInfo `json:"runs"`
	// Truncated says that more have ended: the oldest of them are left out.
	Truncated bool `json:"truncated"`
}

// ExecInfo is a run as shell/list shows it.
type ExecInfo struct {
	ID string `json:"id"`
	// PID is that of a live run's shell.
	PID *int `json:"pid" wire:"nullable"`
	// Command and Cwd are those of the request, cut where they are long; both are empty
	// for runs of servers that did not keep them.
	Command     string `json:"command"`
	Cwd         string `json:"cwd"`
	StartedAtMs int64  `json:"startedAtMs"` // Unix time
	Exited      bool   `json:"exited"`
	ExitCode    *int   `json:"exitCode" wire:"nullable"`
	// Number is that of history/list.
	Number int64 `json:"number,omitempty" wire:"optional"`
}
