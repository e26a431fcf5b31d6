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

// DiscoverCapabilitiesParams looks for the skills of the server's user.
type DiscoverCapabilitiesParams struct {
	Cwd     string   `json:"cwd"` // file URI
	Sandbox *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// DiscoverCapabilitiesResult lists them.
type DiscoverCapabilitiesResult struct {
	Plugins  []Empty     `json:"plugins"` // none: this server has no plugins of its own
	Skills   []UserSkill `json:"skills"`
	Warnings []string    `json:"warnings"`
}

// UserSkill is what a skill's files say of it.
type UserSkill struct {
	Name             string             `json:"name"`
	Description      string             `json:"description"`
	ShortDescription *string            `json:"shortDescription" wire:"nullable"`
	Path             string             `json:"path"` // of its SKILL.md, a file URI
	DiscoveryRoot    DiscoveryRoot      `json:"discoveryRoot"`
	Dependencies     *SkillDependencies `json:"dependencies" wire:"nullable"`
	Policy           *SkillPolicy       `json:"policy" wire:"nullable"`
}

// DiscoveryRoot is the directory that a skill was found in.
type DiscoveryRoot struct {
	ID   string `json:"id"`
	Path string `json:"path"` // file URI
}

// SkillDependencies are what a skill needs.
type SkillDependencies struct {
	Tools []SkillTool `json:"tools"`
}

// SkillTool is a tool that a skill needs.
type SkillTool struct {
	Type              string  `json:"type" yaml:"type"`
	Value             string  `json:"value" yaml:"value"`
	Description       *string `json:"description" wire:"nullable" yaml:"description"`
	Transport         *string `json:"transport" wire:"nullable" yaml:"transport"`
	Command           *string `json:"command" wire:"nullable" yaml:"command"`
	URL               *string `json:"url" wire:"nullable" yaml:"url"`
	OAuthCallbackPort *uint64 `json:"oauthCallbackPort" wire:"nullable" yaml:"oauth_callback_port"`
}

// SkillPolicy says when a skill may be used.
type SkillPolicy struct {
	AllowImplicitInvocation *bool    `json:"allowImplicitInvocation" wire:"nullable" yaml:"allow_implicit_invocation"`
	Products                []string `json:"products" yaml:"products"`
}
