package protocol

// DiscoverRootsParams looks for skills and plugins below directories.
type DiscoverRootsParams struct {
	Roots []CapabilityRoot `json:"roots"`
}

// CapabilityRoot is a directory to look in; ID is the client's name for it.
type CapabilityRoot struct {
	ID      string   `json:"id"`
	Path    string   `json:"path"` // file URI
	Sandbox *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// DiscoverRootsResult has one entry for each root, in the order of the request.
type DiscoverRootsResult struct {
	Roots []DiscoveredRoot `json:"roots"`
}

// DiscoveredRoot is what a root holds, or, with Error, why it was not looked into.
type DiscoveredRoot struct {
	ID                 string            `json:"id"`
	Path               string            `json:"path"` // as the request had it
	Plugin             *DiscoveredPlugin `json:"plugin" wire:"nullable"`
	Skills             []DiscoveredSkill `json:"skills"`             // sorted by the path of the instructions
	NamespaceManifests []CapabilityFile  `json:"namespaceManifests"` // of all plugins in the root, sorted by path
	Warnings           []string          `json:"warnings"`
	Error              *string           `json:"error" wire:"nullable"`
}

// DiscoveredPlugin is the plugin that the root itself is.
type DiscoveredPlugin struct {
	Manifest   CapabilityFile  `json:"manifest"`
	MCPConfig  *CapabilityFile `json:"mcpConfig" wire:"nullable"`
	AppsConfig *CapabilityFile `json:"appsConfig" wire:"nullable"`
}

// DiscoveredSkill is a SKILL.md and, if there is one, the agents/openai.yaml beside it.
type DiscoveredSkill struct {
	Instructions CapabilityFile  `json:"instructions"`
	Metadata     *CapabilityFile `json:"metadata" wire:"nullable"`
}

// CapabilityFile is a text file.
type CapabilityFile struct {
	Path     string `json:"path"` // file URI
	Contents string `json:"contents"`
}

// Limits of capabilityRoots/discoverV1. More roots are refused; a file, a root or an
// answer that is larger is left out with a warning, and so is what lies beyond the
// limits of a walk.
const (
	MaxCapabilityRoots       = 128
	MaxCapabilityFileBytes   = 1 << 20
	MaxCapabilityRootBytes   = 16 << 20
	MaxCapabilityAnswerBytes = 32 << 20

	MaxCapabilityDepth       = 6
	MaxCapabilityDirectories = 2000
	MaxCapabilityEntries     = 20_000
)
