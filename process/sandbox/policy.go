package sandbox

import (
	"slices"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// Access is what a policy lets a path be used for.
type Access uint8

const (
	// Hidden paths are on no list: they seem not to exist.
	Hidden Access = iota
	// Read paths can be read and executed.
	Read
	// Write paths can be read, executed and changed.
	Write
	// Deny paths exist, and using them is refused.
	Deny
)

// A Rule gives Path, an absolute clean path, and everything below it an access.
type Rule struct {
	Path   string
	Access Access
}

// A Policy is a sandbox object with everything in it resolved to paths.
type Policy struct {
	// Unconfined is true when the file system is not restricted at all. There are no
	// Rules then.
	Unconfined bool
	// Rules are sorted by path, one a path.
	Rules []Rule
	// Globs are absolute patterns of what is denied where it exists.
	Globs []string
	// Private is denied as well, and no rule opens it again.
	Private []PrivatePath
	// GlobDepth is how many levels below a pattern's fixed part are searched; 0 means
	// no limit but MaxGlobDepth.
	GlobDepth int
	// Minimal is true when the system's programs are among the Rules. Secrets beside
	// them, of no use to a program, are then hidden where that can be had.
	Minimal bool
	// Network is true when the network may be used.
	Network bool
	// Legacy asks for Landlock where it suffices.
	Legacy bool
}

// Access returns the access of the most specific rule for path, Hidden without one.
func (p *Policy) Access(path string) Access {
	if p.Unconfined {
		return Write
	}
	return accessIn(p.Rules, path)
}

// FullRead reports whether the whole disk can be read.
func (p *Policy) FullRead() bool {
	return p.Unconfined || p.Access("/") != Hidden && len(p.Globs) == 0 && len(p.Private) == 0 &&
		!slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Access == Deny })
}

// unrestricted reports whether there is nothing to enforce.
func (p *Policy) unrestricted() bool { return p.FullWrite() && p.Network }

// FullWrite reports whether the whole disk can be written.
func (p *Policy) FullWrite() bool {
	return p.Unconfined || p.Access("/") == Write && len(p.Globs) == 0 && len(p.Private) == 0 &&
		!slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Access != Write })
}

// add gives path an access. Of two accesses for one path a denial wins over writing,
// and writing over reading.
func (p *Policy) add(path string, access Access) {
	p.Rules = addRule(p.Rules, path, access)
}

// has reports whether there is a rule for exactly path.
func (p *Policy) has(path string) bool {
	_, found := findRule(p.Rules, path)
	return found
}

func addRule(rules []Rule, path string, access Access) []Rule {
	i, found := findRule(rules, path)
	if found {
		rules[i].Access = max(rules[i].Access, access)
		return rules
	}
	return slices.Insert(rules, i, Rule{path, access})
}

func findRule(rules []Rule, path string) (int, bool) {
	return slices.BinarySearchFunc(rules, path, func(r Rule, path string) int { return slashpath.Compare(r.Path, path) })
}

func accessIn(rules []Rule, path string) Access {
	for {
		if i, found := findRule(rules, path); found {
			return rules[i].Access
		}
		if path == "/" {
			return Hidden
		}
		path = slashpath.Dir(path)
	}
}
