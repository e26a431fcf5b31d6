package protocol

// Streams of process output.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
	StreamPTY    = "pty"
)

// Sandbox types reported by process/start.
const (
	SandboxNone  = "none"
	SandboxLinux = "linuxSeccomp"
)

// StartParams starts a process.
type StartParams struct {
	ProcessID string            `json:"processId"`
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"` // file URI
	Env       map[string]string `json:"env"`
	TTY       bool              `json:"tty"`
	PipeStdin bool              `json:"pipeStdin" wire:"optional"`
	Arg0      *string           `json:"arg0" wire:"nullable"`
	EnvPolicy *EnvPolicy        `json:"envPolicy" wire:"nullable"`
	Sandbox   *Sandbox          `json:"sandbox" wire:"nullable"`

	EnforceManagedNetwork bool            `json:"enforceManagedNetwork" wire:"optional"`
	ManagedNetwork        *ManagedNetwork `json:"managedNetwork" wire:"nullable"`
	Metadata              *StartMetadata  `json:"metadata" wire:"nullable"`
	// NetworkProxy and ShellSnapshot belong to capabilities that this server does
	// not announce; a value other than null is refused, never ignored.
	NetworkProxy  *Opaque `json:"networkProxy,omitempty" wire:"nullable"`
	ShellSnapshot *Opaque `json:"shellSnapshot,omitempty" wire:"nullable"`

	// TimeoutMs (additive, processTimeout) ends the process after so many
	// milliseconds: SIGTERM to its group, then SIGKILL two seconds later.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty" wire:"nullable"`
	// Size (additive, processResize) is the first size of the terminal; 24 rows of
	// 80 columns when absent.
	Size *TerminalSize `json:"size,omitempty" wire:"nullable"`
	// Limits (additive, processLimits) bound what the process and all that it starts use.
	Limits *ProcessLimits `json:"limits,omitempty" wire:"nullable"`
}

// TerminalSize is the size of a PTY in characters.
type TerminalSize struct {
	Rows uint32 `json:"rows"`
	Cols uint32 `json:"cols"`
}

// EnvPolicy says how the child's environment is made from the server's.
type EnvPolicy struct {
	Inherit               string            `json:"inherit"` // "core", "all" or "none"
	IgnoreDefaultExcludes bool              `json:"ignoreDefaultExcludes"`
	Exclude               []string          `json:"exclude"`
	Set                   map[string]string `json:"set"`
	IncludeOnly           []string          `json:"includeOnly"`
}

// ManagedNetwork limits a sandboxed child to loopback ports.
type ManagedNetwork struct {
	LoopbackPorts     []uint16 `json:"loopbackPorts"`
	AllowLocalBinding bool     `json:"allowLocalBinding"`
}

// StartMetadata is telemetry of the client's.
type StartMetadata struct {
	ThreadID   *string `json:"threadId" wire:"nullable"` // a UUID
	ToolCallID *string `json:"toolCallId" wire:"nullable"`
}

// StartResult answers process/start.
type StartResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType"`
	// Attached (additive, processAttach) is true when the same request had already
	// started this process and nothing was started again.
	Attached bool `json:"attached,omitempty" wire:"optional"`
	// Limits (additive, processLimits) says how each limit of the request is enforced.
	Limits []LimitReport `json:"limits,omitempty" wire:"optional"`
}

// ReadParams reads retained output.
type ReadParams struct {
	ProcessID string  `json:"processId"`
	AfterSeq  *uint64 `json:"afterSeq" wire:"nullable"`
	MaxBytes  *uint64 `json:"maxBytes" wire:"nullable"`
	WaitMs    *uint64 `json:"waitMs" wire:"nullable"`
	// SessionID (additive, processJoin) names another session's process.
	SessionID *string `json:"sessionId,omitempty" wire:"nullable"`
}

// ReadResult answers process/read. Exited, ExitCode, Closed and SandboxDenied are
// the state now, not at the returned chunks.
type ReadResult struct {
	Chunks        []OutputChunk `json:"chunks"`
	NextSeq       uint64        `json:"nextSeq"`
	Exited        bool          `json:"exited"`
	ExitCode      *int          `json:"exitCode" wire:"nullable"`
	Closed        bool          `json:"closed"`
	Failure       *string       `json:"failure" wire:"nullable"`
	SandboxDenied bool          `json:"sandboxDenied" wire:"optional"`
	// Signal, TimedOut and Limit (additive) as in ExitedParams.
	Signal   string `json:"signal,omitempty" wire:"optional"`
	TimedOut bool   `json:"timedOut,omitempty" wire:"optional"`
	Limit    string `json:"limit,omitempty" wire:"optional"`
}

// OutputChunk is one read from the child.
type OutputChunk struct {
	Seq    uint64 `json:"seq"`
	Stream string `json:"stream"`
	Chunk  []byte `json:"chunk"`
}

// WriteParams writes to the child's stdin.
type WriteParams struct {
	ProcessID string `json:"processId"`
	Chunk     []byte `json:"chunk"`
	// WriteID makes a repeated write harmless. The original requires it; absent here
	// means that repeats are not detected.
	WriteID *string `json:"writeId,omitempty" wire:"optional"`
	// SessionID (additive, processJoin) names another session's process.
	SessionID *string `json:"sessionId,omitempty" wire:"nullable"`
}

// Statuses of process/write and process/closeStdin.
const (
	WriteAccepted       = "accepted"
	WriteUnknownProcess = "unknownProcess"
	WriteStdinClosed    = "stdinClosed"
)

// WriteResult answers process/write and process/closeStdin.
type WriteResult struct {
	Status string `json:"status"`
}

// SignalParams sends a signal.
type SignalParams struct {
	ProcessID string `json:"processId"`
	// Signal is "interrupt" or (additive, processSignals) a name such as "SIGTERM",
	// "TERM" or "15".
	Signal string `json:"signal"`
	// Target (additive) is "group", the default, or "process".
	Target *string `json:"target,omitempty" wire:"nullable"`
	// SessionID (additive, processList) names another session's process.
	SessionID *string `json:"sessionId,omitempty" wire:"nullable"`
}

// ProcessParams names a process.
type ProcessParams struct {
	ProcessID string `json:"processId"`
}

// TerminateParams kills a process group.
type TerminateParams struct {
	ProcessID string `json:"processId"`
	// SessionID (additive, processList) names another session's process.
	SessionID *string `json:"sessionId,omitempty" wire:"nullable"`
}

// TerminateResult says whether the process was running when asked.
type TerminateResult struct {
	Running bool `json:"running"`
}

// ResizeParams (additive) resizes a PTY.
type ResizeParams struct {
	ProcessID string `json:"processId"`
	Rows      uint32 `json:"rows"`
	Cols      uint32 `json:"cols"`
	// SessionID (additive, processJoin) names another session's process.
	SessionID *string `json:"sessionId,omitempty" wire:"nullable"`
}

// ListParams (additive) lists processes.
type ListParams struct {
	// Scope is "session", the default, "server", or, with the capability durableLog,
	// "archive": processes that have ended, of any session and life of the server.
	Scope *string `json:"scope,omitempty" wire:"nullable"`
}

// ListResult answers process/list, oldest process first.
type ListResult struct {
	Processes []ProcessInfo `json:"processes"`
}

// ProcessInfo is a process as process/list shows it. The environment is left out:
// it may hold secrets.
type ProcessInfo struct {
	SessionID   string   `json:"sessionId"`
	ProcessID   string   `json:"processId"`
	PID         int      `json:"pid"`
	Argv        []string `json:"argv"`
	Cwd         string   `json:"cwd"` // file URI
	TTY         bool     `json:"tty"`
	StartedAtMs int64    `json:"startedAtMs"` // Unix time
	NextSeq     uint64   `json:"nextSeq"`
	Exited      bool     `json:"exited"`
	ExitCode    *int     `json:"exitCode" wire:"nullable"`
	Closed      bool     `json:"closed"`
	SandboxType string   `json:"sandboxType"`
	// Number (additive, history) is that of history/list; 0 if nothing is recorded.
	Number int64 `json:"number,omitempty" wire:"optional"`
}

// OutputParams is the process/output notification.
type OutputParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    string `json:"stream"`
	Chunk     []byte `json:"chunk"`
}

// ExitedParams is the process/exited notification.
type ExitedParams struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	ExitCode      int    `json:"exitCode"`
	SandboxDenied bool   `json:"sandboxDenied"`
	// Signal (additive) is the name of the signal that ended the process, such as
	// "SIGKILL"; absent when it exited by itself. On a PTY ExitCode is then 1.
	Signal string `json:"signal,omitempty" wire:"optional"`
	// TimedOut (additive) is true when timeoutMs ended it.
	TimedOut bool `json:"timedOut,omitempty" wire:"optional"`
	// Limit (additive) is the limit that ended it, one of Limit*.
	Limit string `json:"limit,omitempty" wire:"optional"`
}

// ClosedParams is the process/closed notification, the last of a process.
type ClosedParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}
