// Package discovery finds skills and plugins. capabilityRoots/discoverV1 looks below
// directories that a client names and returns files; what they mean is for the client
// to say. capabilities/discoverV2 looks where the user of the server keeps skills and
// returns what they say of themselves.
//
// A plugin is a directory with a manifest: .codex-plugin/plugin.json, or the same in
// .claude-plugin or .cursor-plugin, the first that can be read. A skill is a regular
// file SKILL.md anywhere in the root; agents/openai.yaml beside it is its metadata.
// The rules and the limits were learnt from the answers of codex 0.171.0.
//
// A Service reads through the fs methods of its connection and so under the sandbox
// of each root. It is safe for concurrent use.
package discovery
