package sandbox

import (
	"encoding/json"
	"fmt"

	"github.com/wsd-dev/wsd/process/limit"
)

// How a helper confines itself.
const (
	// mechanismNamespaces: mounts in a namespace of the helper's own, no capabilities,
	// seccomp, and Landlock's scopes where it has them.
	mechanismNamespaces = "namespaces"
	// mechanismLandlock: Landlock rules, no capabilities, seccomp.
	mechanismLandlock = "landlock"
	// mechanismNetwork: seccomp for the network only; the file system is not restricted.
	mechanismNetwork = "network"
	// mechanismNone: nothing is restricted but the Resources of the plan.
	mechanismNone = "none"
)

// A plan is what a helper does to itself. It reaches it through a descriptor. Paths
// travel as bytes: they need not be UTF-8.
type plan struct {
	Mechanism string
	// Unshare: the helper makes its namespaces itself; else it was born in them. newBirth
	// sets it.
	Unshare bool
	Base    Access
	Places  []planPlace
	Links   []planLink
	// Except is what Landlock does not let be read of what is above it.
	Except [][]byte `json:",omitempty"`
	// Network: sockets are allowed, and the network is the host's.
	Network bool
	// Watch: the helper sends a descriptor that tells when the last process of the
	// sandbox is gone.
	Watch bool
	// Path is the program, Dir its working directory; argv and environment are the
	// helper's own. Without Path the helper serves Role.
	Path, Dir []byte
	Role      string
	// Limited has a helper with namespaces of its own hand one over.
	Limited bool `json:",omitempty"`
	// Resources are set before the program is executed.
	Resources []limit.Resource `json:",omitempty"`

	all []place // layout.All; of no use to the helper
}

type planPlace struct {
	Path   []byte
	Access Access
	Dir    bool `json:",omitempty"`
	Mask   bool `json:",omitempty"`
	// List: a denied directory can be listed.
	List bool `json:",omitempty"`
	// Fleeting: a place that is gone needs nothing.
	Fleeting bool `json:",omitempty"`
}

type planLink struct{ Path, Target []byte }

// newPlan puts a layout into a plan.
func newPlan(l *layout) *plan {
	p := &plan{Mechanism: mechanismNamespaces, Base: l.Base, all: l.All}
	for _, at := range l.Places {
		p.Places = append(p.Places, planPlace{[]byte(at.Path), at.Access, at.Dir, at.Mask, at.List, at.Fleeting})
	}
	for _, ln := range l.Links {
		p.Links = append(p.Links, planLink{[]byte(ln.Path), []byte(ln.Target)})
	}
	return p
}

func (p *plan) encode() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode sandbox plan: %w", err)
	}
	return text, nil
}

func decodePlan(text []byte) (*plan, error) {
	p := new(plan)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("decode sandbox plan: %w", err)
	}
	return p, nil
}

// What a helper says on its status socket, one message each. The end of the stream
// after statusReady means that the program runs.
const (
	statusWatch       = 'w' // with a descriptor
	statusApart       = 'a' // with a descriptor
	statusReady       = 'r' // confined, and about to execute the program
	statusExec        = 'e' // followed by a failure: the program cannot be executed
	statusUnavailable = 'u' // followed by a failure: the plan cannot be carried out
)

// orderGo is the one message to a helper, which waits for it before statusReady: the server
// has the descriptors that the plan asks for.
const orderGo = 'g'

// handsOver reports whether the helper has to hand descriptors over.
func (p *plan) handsOver() bool { return p.Watch || p.wantsApart() }

// wantsApart reports whether there is a namespace to hand over.
func (p *plan) wantsApart() bool { return p.Limited && p.Mechanism == mechanismNamespaces }

// A failure is what went wrong in a helper.
type failure struct {
	Op    string
	Errno uintptr
	Text  string
}
