package protocol

// Sandbox says what a process or a file operation may touch. It is the sandbox
// object of the exec-server wire; older forms are refused.
type Sandbox struct {
	Permissions          Permissions    `json:"permissions"`
	WindowsSandboxLevel  string         `json:"windowsSandboxLevel"`
	Cwd                  *string        `json:"cwd,omitempty" wire:"nullable"`
	WorkspaceRoots       []string       `json:"workspaceRoots,omitempty" wire:"optional"`
	PolicyContext        *PolicyContext `json:"policyContext,omitempty" wire:"nullable"`
	UserHomeDir          *string        `json:"userHomeDir,omitempty" wire:"nullable"`
	TemporaryDirectories []string       `json:"temporaryDirectories,omitempty" wire:"nullable"`
	WindowsProxySettings string         `json:"windowsSandboxProxySettingsMode,omitempty" wire:"optional"`
	UseLegacyLandlock    bool           `json:"useLegacyLandlock,omitempty" wire:"optional"`
	SandboxOverride      string         `json:"sandboxOverride,omitempty" wire:"optional"`
}

// PolicyContext is another spelling of Cwd and WorkspaceRoots.
type PolicyContext struct {
	Cwd            *string  `json:"cwd,omitempty" wire:"nullable"`
	WorkspaceRoots []string `json:"workspaceRoots,omitempty" wire:"optional"`
}

// Kinds of Permissions, of FileSystemPermissions and of network access.
const (
	PermissionsManaged  = "managed"
	PermissionsDisabled = "disabled"
	PermissionsExternal = "external"

	FileSystemRestricted   = "restricted"
	FileSystemUnrestricted = "unrestricted"

	NetworkRestricted = "restricted"
	NetworkEnabled    = "enabled"
)

// Permissions is "managed" with a file system and a network part, "disabled", or
// "external" with a network part.
type Permissions struct {
	Type       string                 `json:"type"`
	FileSystem *FileSystemPermissions `json:"file_system,omitempty" wire:"optional"`
	Network    string                 `json:"network,omitempty" wire:"optional"`
}

// FileSystemPermissions is "restricted" to its entries, or "unrestricted".
type FileSystemPermissions struct {
	Type             string            `json:"type"`
	Entries          []PermissionEntry `json:"entries,omitempty" wire:"optional"`
	GlobScanMaxDepth *uint64           `json:"glob_scan_max_depth,omitempty" wire:"nullable"`
}

// Kinds of access an entry grants.
const (
	AccessRead  = "read"
	AccessWrite = "write"
	AccessDeny  = "deny"
	AccessNone  = "none"
)

// PermissionEntry gives a path an access; the most specific entry wins.
type PermissionEntry struct {
	Path                PermissionPath `json:"path"`
	Access              string         `json:"access"`
	MissingPathBehavior *string        `json:"missing_path_behavior,omitempty" wire:"nullable"` // "skip"
}

// PermissionPath is a "path" with a URI, a "glob_pattern", or a "special" place.
type PermissionPath struct {
	Type    string       `json:"type"`
	Path    *string      `json:"path,omitempty" wire:"optional"`
	Pattern *string      `json:"pattern,omitempty" wire:"optional"`
	Value   *SpecialPath `json:"value,omitempty" wire:"optional"`
}

// SpecialPath names a place by its role: "root", "minimal",
// "current_working_directory", "project_roots", "tmpdir", "slash_tmp", "unknown".
type SpecialPath struct {
	Kind    string  `json:"kind"`
	Subpath *string `json:"subpath,omitempty" wire:"nullable"`
}
