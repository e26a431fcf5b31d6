package protocol

// InitializeParams opens a session or, with ResumeSessionID, takes one over.
type InitializeParams struct {
	ClientName      string  `json:"clientName"`
	ResumeSessionID *string `json:"resumeSessionId" wire:"nullable"`
}

// InitializeResult names the session and describes the machine.
type InitializeResult struct {
	SessionID       string          `json:"sessionId"`
	EnvironmentInfo EnvironmentInfo `json:"environmentInfo" wire:"nullable"`
}

// Empty is the parameters of a method that has none, and the result of one that
// returns nothing.
type Empty struct{}

// EnvironmentInfo describes the machine that the server runs on.
type EnvironmentInfo struct {
	Shell                Shell           `json:"shell"`
	ExecutorVersion      string          `json:"executorVersion" wire:"nullable"`
	Cwd                  string          `json:"cwd" wire:"nullable"`         // file URI
	UserHomeDir          string          `json:"userHomeDir" wire:"nullable"` // file URI
	PlatformOS           string          `json:"platformOs" wire:"nullable"`  // as runtime.GOOS, "macos" for darwin
	PrependPathDirs      []string        `json:"prependPathDirs" wire:"nullable"`
	TemporaryDirectories []string        `json:"temporaryDirectories" wire:"nullable"`
	TempDir              string          `json:"tempDir" wire:"nullable"` // file URI
	Capabilities         map[string]bool `json:"capabilities" wire:"nullable"`
	// Limits (additive) are the sizes a client should keep to.
	Limits *Limits `json:"limits,omitempty" wire:"nullable"`
	// WorkspaceMount (additive) is the path under which sync/* has the workspace's directory.
	WorkspaceMount string `json:"workspaceMount,omitempty" wire:"nullable"`
	// WorkspacePlace (additive) tells a client on the same machine which directory the
	// workspace is.
	WorkspacePlace *WorkspacePlace `json:"workspacePlace,omitempty" wire:"nullable"`
}

// A WorkspacePlace is where a workspace and its store are. Directories of a running machine have
// identities that mean nothing elsewhere.
type WorkspacePlace struct {
	Dir      string   `json:"dir"`                          // its path at the server
	Lineage  []string `json:"lineage" wire:"nullable"`      // identities of it and of all directories above it, from below
	StoreDir []string `json:"storeLineage" wire:"nullable"` // those of the directory of the store
	// Store (additive) is the same for as long as the store of the workspace is, wherever it is
	// served. Absent if the server does not say.
	Store string `json:"store,omitempty" wire:"nullable"`
}

// Shell is the user's login shell.
type Shell struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Limits is what a client may rely on.
type Limits struct {
	MaxMessageBytes    int `json:"maxMessageBytes"`
	MaxReadFileBytes   int `json:"maxReadFileBytes"`
	MaxBlockBytes      int `json:"maxBlockBytes"`
	MaxRetainedBytes   int `json:"maxRetainedBytes"`
	SessionGraceMs     int `json:"sessionGraceMs"`
	ProcessRetentionMs int `json:"processRetentionMs"`
}

// EnvironmentStatusResult is the answer to environment/status.
type EnvironmentStatusResult struct {
	Status string `json:"status"` // "ready", or "draining" during shutdown
}

// Capabilities that a server of this package's wire may announce. The first group
// is the original's, the second is additive.
const (
	CapFsWatchMissing             = "fsWatchMissing"
	CapFileWriteStreaming         = "fileWriteStreaming"
	CapSandboxedFileStreaming     = "sandboxedFileStreaming"
	CapHTTPHeaderEnvVars          = "httpHeaderEnvVars"
	CapCapabilityDiscoveryV2      = "capabilityDiscoveryV2"
	CapCapabilityDiscoverySandbox = "capabilityDiscoverySandbox"

	CapProcessResize     = "processResize"
	CapProcessCloseStdin = "processCloseStdin"
	CapProcessSignals    = "processSignals"
	CapProcessList       = "processList"
	CapProcessTimeout    = "processTimeout"
	CapProcessAttach     = "processAttach"
	CapProcessLimits     = "processLimits"
	CapFsRename          = "fsRename"
	CapFsSymlink         = "fsSymlink"
	CapFsReadLink        = "fsReadLink"
	CapFsChmod           = "fsChmod"
	CapFsGlob            = "fsGlob"
	CapFsGrep            = "fsGrep"
	CapFsWatch           = "fsWatch"
	CapFsConditional     = "fsConditionalWrites"
	CapFsAtomicWrites    = "fsAtomicWrites"

	// Of servers with a workspace.
	CapSync  = "sync"  // sync/*
	CapShell = "shell" // shell/*
	// CapDurableLog: process/read falls back to the log of a process that has ended, of any
	// session and any life of the server; process/list has the scope "archive".
	CapDurableLog = "durableLog"
)
