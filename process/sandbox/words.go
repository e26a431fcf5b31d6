package sandbox

import (
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

// checkWords refuses what the wire has no meaning for: unknown words and missing
// members. Its texts are those of the wire's decoder.
func checkWords(s *protocol.Sandbox) error {
	perms := &s.Permissions
	if err := checkOuterWords(s); err != nil {
		return err
	}
	if err := oneOf(perms.Type, "managed", "disabled", "external"); err != nil {
		return err
	}
	if perms.Type == protocol.PermissionsDisabled {
		return nil
	}
	if perms.Type == protocol.PermissionsManaged && perms.FileSystem == nil {
		return missing("file_system")
	}
	if perms.Network == "" {
		return missing("network")
	}
	if err := oneOf(perms.Network, "restricted", "enabled"); err != nil {
		return err
	}
	if perms.FileSystem == nil {
		return nil
	}
	if err := oneOf(perms.FileSystem.Type, "restricted", "unrestricted"); err != nil {
		return err
	}
	for i := range perms.FileSystem.Entries {
		if err := checkEntry(&perms.FileSystem.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkOuterWords(s *protocol.Sandbox) error {
	if s.WindowsSandboxLevel != "" {
		if err := oneOf(s.WindowsSandboxLevel, "disabled", "restricted-token", "elevated", "mxc"); err != nil {
			return err
		}
	}
	if s.WindowsSandboxLevel == "mxc" {
		return unavailablef("native MXC is unavailable on this executor")
	}
	if s.WindowsProxySettings != "" {
		if err := oneOf(s.WindowsProxySettings, "reconcile", "preserve"); err != nil {
			return err
		}
	}
	if s.SandboxOverride != "" {
		return oneOf(s.SandboxOverride, "noOverride", "escalatedSandboxWithRestrictions", "bypassSandboxFirstAttempt")
	}
	return nil
}

func checkEntry(e *protocol.PermissionEntry) error {
	if err := oneOf(e.Access, "read", "write", "deny", "none"); err != nil {
		return err
	}
	if b := e.MissingPathBehavior; b != nil {
		if err := oneOf(*b, "skip"); err != nil {
			return err
		}
	}
	if err := oneOf(e.Path.Type, "path", "glob_pattern", "special"); err != nil {
		return err
	}
	switch {
	case e.Path.Type == "path" && e.Path.Path == nil:
		return missing("path")
	case e.Path.Type == "glob_pattern" && e.Path.Pattern == nil:
		return missing("pattern")
	case e.Path.Type == "special" && e.Path.Value == nil:
		return missing("value")
	case e.Path.Type == "special":
		return oneOf(e.Path.Value.Kind, "root", "minimal", "current_working_directory", "project_roots",
			"tmpdir", "slash_tmp", "unknown")
	}
	return nil
}

func missing(member string) error {
	return protocol.InvalidParams("missing field `%s`", member)
}

func oneOf(word string, words ...string) error {
	if slices.Contains(words, word) {
		return nil
	}
	expected := "`" + words[0] + "`"
	switch len(words) {
	case 1:
	case 2:
		expected += " or `" + words[1] + "`"
	default:
		expected = "one of `" + strings.Join(words, "`, `") + "`"
	}
	return protocol.InvalidParams("unknown variant `%s`, expected %s", word, expected)
}
