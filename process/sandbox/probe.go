package sandbox

import (
	"context"
	"runtime"
)

// A Finding says whether this machine can do something, in a word and in a sentence.
type Finding struct {
	OK bool `json:"ok"`
	// Mechanism is what does it: "namespaces", "landlock", "seccomp", or empty.
	Mechanism string `json:"mechanism,omitempty"`
	Says      string `json:"says"`
}

// A Report is what this machine can enforce. Everything in it was tried.
type Report struct {
	System string `json:"system"`
	Kernel string `json:"kernel,omitempty"`
	// LandlockABI is the version of Landlock's interface, 0 without Landlock.
	LandlockABI int `json:"landlockAbi"`

	Seccomp           Finding `json:"seccomp"`
	UserNamespaces    Finding `json:"userNamespaces"`
	MountNamespaces   Finding `json:"mountNamespaces"`
	NetworkNamespaces Finding `json:"networkNamespaces"`
	Landlock          Finding `json:"landlock"`
	// Signals tells whether confined programs are kept from signalling others.
	Signals Finding `json:"signals"`

	// Whether whole policies can be enforced.
	ReadOnly       Finding `json:"readOnly"`
	WorkspaceWrite Finding `json:"workspaceWrite"`
	RestrictedRead Finding `json:"restrictedRead"`
	DenyEntries    Finding `json:"denyEntries"`
	NoNetwork      Finding `json:"noNetwork"`
	ManagedNetwork Finding `json:"managedNetwork"`
}

// OK reports whether every policy that a client usually sends can be enforced.
func (r *Report) OK() bool {
	return r.ReadOnly.OK && r.WorkspaceWrite.OK && r.RestrictedRead.OK && r.DenyEntries.OK && r.NoNetwork.OK
}

// Probe finds out what this machine can enforce. It starts helpers, so that the binary
// must call Main, and makes a directory for temporary files.
func Probe() Report {
	e := New(Config{})
	defer e.Close() //nolint:errcheck // never fails
	return e.report(context.Background())
}

func (e *Enforcer) report(ctx context.Context) Report {
	no := Finding{Says: "not available on " + runtime.GOOS}
	r := Report{
		System: runtime.GOOS, Seccomp: no, UserNamespaces: no, MountNamespaces: no, NetworkNamespaces: no,
		Landlock: no, Signals: no, ReadOnly: no, WorkspaceWrite: no, RestrictedRead: no, DenyEntries: no, NoNetwork: no,
		ManagedNetwork: Finding{Says: "a network limited to loopback ports cannot be enforced; such requests are refused"},
	}
	e.probe(ctx, &r)
	return r
}
