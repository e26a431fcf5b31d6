package shell

import (
	"slices"
	"strings"
)

// passed are the variables of the server's that commands get; those that begin with
// localePrefix, too.
var passed = []string{"PATH", "HOME", "TMPDIR", "TZ", "LANG", "TERM"}

const (
	localePrefix = "LC_"
	// varPrefix begins variables of the server's that commands get without it.
	varPrefix = "COMPUTER_VAR_"
)

// environ makes the environment of a command, sorted: what is passed on of the server's,
// then what is meant for commands, then the request's own.
func environ(server, secrets []string, request map[string]string) []string {
	env := make(map[string]string)
	for _, entry := range server {
		if name, value, ok := strings.Cut(entry, "="); ok && (slices.Contains(passed, name) || strings.HasPrefix(name, localePrefix)) {
			env[name] = value
		}
	}
	for _, entry := range server {
		if name, value, ok := strings.Cut(entry, "="); ok {
			if name, ok := strings.CutPrefix(name, varPrefix); ok && name != "" {
				env[name] = value
			}
		}
	}
	for _, name := range secrets {
		delete(env, name)
	}
	for name, value := range request {
		env[name] = value
	}
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
