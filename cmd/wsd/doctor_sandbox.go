package main

import (
	"strings"
	"text/tabwriter"

	"github.com/wsd-dev/wsd/process/sandbox"
)

// sandboxText is a report of package sandbox for a person: first the policies that
// clients send, then what they are enforced with.
func sandboxText(r sandbox.Report) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range []struct {
		name string
		sandbox.Finding
	}{
		{"read-only", r.ReadOnly},
		{"workspace-write", r.WorkspaceWrite},
		{"restricted reads", r.RestrictedRead},
		{"denied paths", r.DenyEntries},
		{"no network", r.NoNetwork},
		{"managed network", r.ManagedNetwork},
		{"signals", r.Signals},
		{"seccomp", r.Seccomp},
		{"user namespaces", r.UserNamespaces},
		{"mount namespaces", r.MountNamespaces},
		{"network namespaces", r.NetworkNamespaces},
		{"landlock", r.Landlock},
	} {
		status := statusOK
		if !f.OK {
			status = statusLimited
		}
		says := f.Says
		if f.Mechanism != "" && !strings.Contains(says, f.Mechanism) {
			says += " (" + f.Mechanism + ")"
		}
		row(table, status, f.name, says)
	}
	_ = table.Flush() // a Builder takes everything
	if !r.OK() {
		b.WriteString("What cannot be enforced is refused; nothing runs with less than a client asked for.\n")
	}
	return b.String()
}
