package protocol

// Names of the limits of a process, in Limit of ExitedParams and ReadResult and in
// LimitReport.
const (
	LimitCPU       = "cpu"
	LimitMemory    = "memory"
	LimitProcesses = "processes"
	LimitFileSize  = "fileSize"
	LimitWall      = "wall"
)

// By what a limit is enforced, in LimitReport.
const (
	// LimitByCgroup: the kernel enforces it, by a controller of cgroups.
	LimitByCgroup = "cgroup"
	// LimitByRlimit: the kernel enforces it for each process.
	LimitByRlimit = "rlimit"
	// LimitByWatchdog: the server measures and kills.
	LimitByWatchdog = "watchdog"
	// LimitByNone: it is not enforced.
	LimitByNone = "none"
)

// ProcessLimits (additive, processLimits) bound what a process and all that it starts
// use. A process beyond one is killed with all that it started, and its exit names the
// limit. Absent values are no limits, and 0 is refused.
type ProcessLimits struct {
	CPUMs         *uint64 `json:"cpuMs,omitempty" wire:"nullable"`         // processor time, user and system
	MemoryBytes   *uint64 `json:"memoryBytes,omitempty" wire:"nullable"`   // in RAM and swap, without files
	Processes     *uint64 `json:"processes,omitempty" wire:"nullable"`     // processes and threads at a time
	FileSizeBytes *uint64 `json:"fileSizeBytes,omitempty" wire:"nullable"` // of each file that is written
	WallMs        *uint64 `json:"wallMs,omitempty" wire:"nullable"`        // since the start
}

// LimitReport says how a limit is enforced.
type LimitReport struct {
	Name     string `json:"name"` // one of Limit*
	Enforced bool   `json:"enforced"`
	By       string `json:"by"` // one of LimitBy*
}
