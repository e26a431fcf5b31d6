package client

import (
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// ReadOnly is a sandbox in which everything can be read and nothing written, without
// a network. dir is an absolute path on the server, where the command runs.
func ReadOnly(dir string) *protocol.Sandbox {
	return managed(dir, special("root", "", protocol.AccessRead))
}

// guarded are the directories of a workspace that stay read-only: what is in them
// makes other programs run commands.
var guarded = []string{".git", ".agents", ".codex", ".aws"}

// WorkspaceWrite is a sandbox in which everything can be read, and written only below
// dir, an absolute path on the server, and in the temporary directories, without a
// network. The directories .git, .agents, .codex and .aws of dir stay read-only.
func WorkspaceWrite(dir string) *protocol.Sandbox {
	entries := []protocol.PermissionEntry{
		special("root", "", protocol.AccessRead),
		special("project_roots", "", protocol.AccessWrite),
		special("slash_tmp", "", protocol.AccessWrite),
		special("tmpdir", "", protocol.AccessWrite),
	}
	skip := "skip"
	for _, name := range guarded {
		entry := special("project_roots", name, protocol.AccessRead)
		entry.MissingPathBehavior = &skip
		entries = append(entries, entry)
	}
	return managed(dir, entries...)
}

func special(kind, subpath, access string) protocol.PermissionEntry {
	value := &protocol.SpecialPath{Kind: kind}
	if subpath != "" {
		value.Subpath = &subpath
	}
	return protocol.PermissionEntry{Path: protocol.PermissionPath{Type: "special", Value: value}, Access: access}
}

func managed(dir string, entries ...protocol.PermissionEntry) *protocol.Sandbox {
	uri := fileuri.Format(dir)
	return &protocol.Sandbox{
		Permissions: protocol.Permissions{
			Type: protocol.PermissionsManaged, Network: protocol.NetworkRestricted,
			FileSystem: &protocol.FileSystemPermissions{Type: protocol.FileSystemRestricted, Entries: entries},
		},
		WindowsSandboxLevel: "disabled", Cwd: &uri, WorkspaceRoots: []string{uri},
	}
}
