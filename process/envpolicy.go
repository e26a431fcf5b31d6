package process

import (
	"maps"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

// Values of EnvPolicy.Inherit.
const (
	inheritCore = "core"
	inheritAll  = "all"
	inheritNone = "none"
)

// coreNames are what inheritCore takes of the server's environment.
var coreNames = []string{"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "USER"}

// secretGlobs are left out unless the policy ignores the default excludes.
var secretGlobs = []string{"*KEY*", "*SECRET*", "*TOKEN*"}

// exitOnStdinClose steers the original's server and never reaches a child.
const exitOnStdinClose = "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"

// childEnv makes the environment of a child, sorted by name. Without a policy it is
// what the request names. With one it is taken from the server's environment, as
// exec-rpc.md, section 3.2, says, and the request's is laid over it.
func childEnv(policy *protocol.EnvPolicy, request map[string]string, server []string) ([]string, error) {
	env := make(map[string]string)
	if policy != nil {
		var err error
		if env, err = inherited(policy, server); err != nil {
			return nil, err
		}
	}
	maps.Copy(env, request)
	delete(env, exitOnStdinClose)
	list := make([]string, 0, len(env))
	for name, value := range env {
		switch {
		case name == "":
			return nil, protocol.InvalidParams("env has a variable without a name")
		case strings.ContainsRune(name, '='):
			return nil, protocol.InvalidParams("env variable name %q has a '='", name)
		case strings.ContainsRune(name, 0), strings.ContainsRune(value, 0):
			return nil, protocol.InvalidStart(protocol.KindSpawnFailed, "env variable %q has a NUL byte", name)
		}
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list, nil
}

func inherited(policy *protocol.EnvPolicy, server []string) (map[string]string, error) {
	env := make(map[string]string)
	for _, entry := range server {
		name, value, ok := strings.Cut(entry, "=")
		if ok && name != "" && !OwnSecret(name) {
			env[name] = value
		}
	}
	drop := func(unwanted func(name string) bool) {
		maps.DeleteFunc(env, func(name, _ string) bool { return unwanted(name) })
	}
	switch policy.Inherit {
	case inheritAll:
	case inheritCore:
		drop(func(name string) bool { return !slices.Contains(coreNames, name) })
	case inheritNone:
		clear(env)
	default:
		return nil, protocol.InvalidParams("unknown variant `%.64s`, expected one of `core`, `all`, `none`", policy.Inherit)
	}
	if !policy.IgnoreDefaultExcludes {
		drop(func(name string) bool { return matchesAny(secretGlobs, name) })
	}
	drop(func(name string) bool { return matchesAny(policy.Exclude, name) })
	maps.Copy(env, policy.Set)
	if len(policy.IncludeOnly) > 0 {
		drop(func(name string) bool { return !matchesAny(policy.IncludeOnly, name) })
	}
	return env, nil
}

// OwnSecret reports whether wsd itself takes a token or key, or the name of a file with
// one, from a variable. No child and no request gets it.
func OwnSecret(name string) bool {
	return strings.HasPrefix(name, "WSD_") && (matchesAny(secretGlobs, name) || matchesAny([]string{"*PASSWORD*"}, name))
}

func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return matchGlob(glob, name) })
}

// envValue is the value of a variable in a list of name=value, false if it has none.
func envValue(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}
