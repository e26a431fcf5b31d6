package sandbox

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// protectedNames are never writable in a writable root, and cannot be made there,
// unless the policy has an entry of its own for them.
var protectedNames = []string{".git", ".agents", ".codex", ".aws"}

// A place is a rule on the disk: Path has no links, and exists, or is a mask.
type place struct {
	Path   string
	Access Access
	// Dir is true for directories, and for masks.
	Dir bool
	// Mask: Path does not exist and must not come into being.
	Mask bool
	// Own: the policy does not ask for it.
	Own bool
	// Pin: Path is a writable directory on the way to something protected, which must
	// not be moved aside.
	Pin bool
}

// A link is a symbolic link on the way to a place.
type link struct{ Path, Target string }

// A layout is a policy put on the disk.
type layout struct {
	// Base is the access of the root directory: Hidden, Read or Write.
	Base   Access
	Places []place // sorted by path, without those that change nothing
	Links  []link  // sorted by path
}

// layOut puts a policy on the disk. It changes nothing there.
func layOut(p *Policy) (*layout, error) {
	b := builder{policy: p, links: map[string]string{}, kinds: map[string]bool{}, own: map[string]bool{}}
	if err := b.resolveRules(); err != nil {
		return nil, err
	}
	if err := b.hidePrivate(); err != nil {
		return nil, err
	}
	if err := b.hideSecrets(); err != nil {
		return nil, err
	}
	if err := b.protect(); err != nil {
		return nil, err
	}
	return b.layout()
}

// found is what became of a rule's path.
type found struct {
	real    string // without links; what is missing is appended as it stands
	exists  bool
	dir     bool
	missing string   // the first component that is missing, or empty
	through []string // the directories that hold the links that were followed
}

// maxLinks is how many links a path may lead through, as for the kernel.
const maxLinks = 40

// follow resolves the links in an absolute clean path, noting them in links.
func follow(at string, links map[string]string) (found, error) {
	var f found
	f.real = "/"
	rest := strings.TrimPrefix(at, "/")
	for hops := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			f.real = parent(f.real)
			continue
		}
		next := join(f.real, name)
		info, err := os.Lstat(next)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			f.missing = next
			f.real = path.Clean(join(next, rest))
			return f, nil
		}
		if err != nil {
			return f, unavailablef("look at %s: %v", next, errors.Unwrap(err))
		}
		if isMask(info) {
			f.missing = next
			f.real = path.Clean(join(next, rest))
			return f, nil
		}
		if info.Mode()&os.ModeSymlink == 0 {
			f.real = next
			f.dir = info.IsDir()
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return f, unavailablef("read link %s: %v", next, errors.Unwrap(err))
		}
		if hops++; hops > maxLinks {
			return f, unavailablef("%s leads through too many links", at)
		}
		links[next] = target
		f.through = append(f.through, next)
		if strings.HasPrefix(target, "/") {
			f.real = "/"
		}
		rest = target + "/" + rest
	}
	if f.real == "/" {
		f.dir = true
	}
	f.exists = true
	return f, nil
}

type builder struct {
	policy *Policy
	links  map[string]string
	rules  []Rule          // by real path, of what exists
	kinds  map[string]bool // whether a real path is a directory
	own    map[string]bool // whether a rule is not one of the policy
	absent []absentRule    // of what does not exist
	via    []viaRule       // rules that lead through links
}

type absentRule struct {
	rule    Rule
	missing string
}

type viaRule struct {
	rule Rule
	link string
}

func (b *builder) resolveRules() error {
	for _, r := range b.policy.Rules {
		if err := b.addRule(r); err != nil {
			return err
		}
	}
	matches, err := expandGlobs(b.policy.Globs, b.policy.GlobDepth)
	if err != nil {
		return err
	}
	for _, at := range matches {
		// A link that matches denies what it leads to; one that leads nowhere nothing.
		f, err := follow(at, b.links)
		if err != nil {
			return err
		}
		if f.exists && f.real != "/" {
			b.put(f, Deny)
		}
	}
	for _, v := range b.via {
		if accessIn(b.rules, parent(v.link)) == Write {
			return unavailablef("%s leads through the link %s, which the policy lets be replaced", v.rule.Path, v.link)
		}
	}
	return nil
}

func (b *builder) addRule(r Rule) error {
	f, err := follow(r.Path, b.links)
	if err != nil {
		return err
	}
	for _, l := range f.through {
		b.via = append(b.via, viaRule{r, l})
	}
	if !f.exists {
		if r.Access != Write { // nothing is made to be written
			b.absent = append(b.absent, absentRule{Rule{f.real, r.Access}, f.missing})
		}
		return nil
	}
	if within(f.real, "/proc") && f.real != "/proc" || f.real == "/proc" && r.Access == Write {
		return b.addProc(f.real, r.Access)
	}
	b.put(f, r.Access)
	return nil
}

// addProc is for rules in /proc, whose names mean other processes to the helper than
// they mean here. All of it can be read anyway, and none of it is ever writable.
func (b *builder) addProc(at string, access Access) error {
	if access == Read {
		return nil
	}
	return unavailablef("%s cannot have rules of its own", at)
}

func (b *builder) put(f found, access Access) {
	b.rules = addRule(b.rules, f.real, access)
	b.kinds[f.real] = f.dir
}

// systemSecrets are in the directories of a minimal policy, and no program needs them.
var systemSecrets = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private"}

// hideSecrets denies them to a policy that is minimal and says nothing of them.
func (b *builder) hideSecrets() error {
	if !b.policy.Minimal {
		return nil
	}
	for _, at := range systemSecrets {
		f, err := follow(at, b.links)
		if err != nil {
			return err
		}
		if _, named := findRule(b.rules, f.real); f.exists && !named && !b.policy.has(at) {
			b.put(f, Deny)
			b.own[f.real] = true
		}
	}
	return nil
}

// protect adds the rules for protected names in writable directories.
func (b *builder) protect() error {
	if b.policy.asksFullWrite() {
		return nil
	}
	for _, r := range append([]Rule(nil), b.rules...) {
		if r.Access != Write || !b.kinds[r.Path] || within(r.Path, "/dev") || slices.Contains(protectedNames, path.Base(r.Path)) {
			continue
		}
		for _, name := range protectedNames {
			if err := b.protectName(join(r.Path, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) protectName(at string) error {
	if _, own := findRule(b.rules, at); own || b.policy.has(at) {
		return nil
	}
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && isMask(info):
		b.absent = append(b.absent, absentRule{Rule{at, Read}, at})
		return nil
	case err != nil:
		return unavailablef("look at %s: %v", at, errors.Unwrap(err))
	case info.Mode()&os.ModeSymlink != 0:
		return unavailablef("%s is a link in a writable directory and cannot be protected", at)
	}
	b.put(found{real: at, dir: info.IsDir()}, Read)
	if info.Mode().IsRegular() && path.Base(at) == ".git" {
		return b.protectGitDir(at)
	}
	return nil
}

// protectGitDir makes the directory read-only that a .git file points to, as a
// submodule's or a worktree's does.
func (b *builder) protectGitDir(file string) error {
	text, err := readHead(file, 8<<10)
	if err != nil {
		return unavailablef("read %s: %v", file, err)
	}
	line, _, _ := strings.Cut(text, "\n")
	target, is := strings.CutPrefix(line, "gitdir:")
	if target = strings.TrimSpace(target); !is || target == "" {
		return nil
	}
	if !path.IsAbs(target) {
		target = join(parent(file), target)
	}
	f, err := follow(path.Clean(target), b.links)
	if err != nil {
		return err
	}
	if !f.exists || accessIn(b.rules, f.real) != Write {
		return nil
	}
	if _, own := findRule(b.rules, f.real); own {
		return unavailablef("%s points to the writable root %s", file, f.real)
	}
	for _, l := range f.through {
		if accessIn(b.rules, parent(l)) == Write {
			return unavailablef("%s points through the link %s, which the policy lets be replaced", file, l)
		}
	}
	b.put(f, Read)
	return nil
}

// readHead returns the first n bytes of a file at most.
func readHead(name string, n int64) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	head, err := io.ReadAll(io.LimitReader(f, n))
	return string(head), err
}

// layout keeps the rules that change something, and adds what they need around them.
func (b *builder) layout() (*layout, error) {
	l := &layout{Base: accessIn(b.rules, "/")}
	if l.Base == Write {
		for _, at := range []string{"/proc", "/sys"} {
			if _, own := findRule(b.rules, at); !own && exists(at) {
				b.put(found{real: at, dir: true}, Read)
			}
		}
	}
	kept := []Rule{{"/", l.Base}}
	for _, r := range b.rules {
		before := accessIn(kept, r.Path)
		if r.Path == "/" || r.Access == before || before == Hidden && r.Access == Deny {
			continue
		}
		kept = addRule(kept, r.Path, r.Access)
		l.Places = append(l.Places, place{Path: r.Path, Access: r.Access, Dir: b.kinds[r.Path], Own: b.own[r.Path]})
	}
	for _, a := range b.absent {
		if accessIn(kept, parent(a.missing)) == Write {
			l.Places = append(l.Places, place{Path: a.missing, Access: a.rule.Access, Dir: true, Mask: true})
		}
	}
	l.Places = append(l.Places, pins(kept, l.Places)...)
	slices.SortStableFunc(l.Places, func(a, b place) int { return comparePaths(a.Path, b.Path) })
	l.Places = slices.CompactFunc(l.Places, func(a, b place) bool { return a.Path == b.Path })
	for at, target := range b.links {
		l.Links = append(l.Links, link{at, target})
	}
	slices.SortFunc(l.Links, func(a, b link) int { return comparePaths(a.Path, b.Path) })
	return l, nil
}

// pins returns the writable directories between a writable place and something
// read-only in it. Moved away, they would leave its path free for something else.
func pins(kept []Rule, places []place) []place {
	var list []place
	for _, p := range places {
		if p.Access != Read {
			continue
		}
		for dir := parent(p.Path); dir != "/"; dir = parent(dir) {
			if _, is := findRule(kept, dir); is || accessIn(kept, dir) != Write {
				break
			}
			list = append(list, place{Path: dir, Access: Write, Dir: true, Pin: true})
		}
	}
	return list
}

func exists(at string) bool {
	_, err := os.Lstat(at)
	return err == nil
}
