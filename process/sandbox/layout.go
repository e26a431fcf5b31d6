package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/wsd-dev/wsd/fs/slashpath"
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
	// List: Path is denied for what is in it, and can be listed.
	List bool
	// Fleeting: the policy does not name Path, which may be gone when the view is built.
	Fleeting bool
}

// A link is a symbolic link on the way to a place.
type link struct{ Path, Target string }

// A layout is a policy put on the disk.
type layout struct {
	// Base is the access of the root directory: Hidden, Read or Write.
	Base   Access
	Places []place // sorted by path, without those that change nothing
	Links  []link  // sorted by path
	// All are the places with those that turned out to need nothing.
	All []place
}

// layOut puts a policy on the disk. It changes nothing there, but for what it borrows.
func layOut(p *Policy, borrowed *rights) (*layout, error) {
	b := newBuilder(p, borrowed)
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
	if err := b.restrictOtherPaths(); err != nil {
		return nil, err
	}
	return b.layout()
}

func newBuilder(p *Policy, borrowed *rights) *builder {
	return &builder{
		policy: p, borrowed: borrowed, links: map[string]string{}, kinds: map[string]bool{}, own: map[string]bool{},
		regranted: map[string]bool{}, listed: map[string]bool{}, fleeting: map[string]bool{},
	}
}

// found is what became of a rule's path.
type found struct {
	real    string // without links; what is missing is appended as it stands
	exists  bool
	dir     bool
	missing string   // the first component that is missing, or empty
	through []string // the links that were followed
	// blocked is a directory on the way that the confined process may open for itself,
	// and that nobody else can look into.
	blocked string
}

// errLoop is the error for a path with more than slashpath.MaxLinks links.
var errLoop = errors.New("too many links")

// isHopeless reports whether err says that a path leads nowhere for this process, and
// so for no confined one.
func isHopeless(err error) bool {
	return leadsNowhere(err) || errors.Is(err, os.ErrPermission)
}

// leadsNowhere reports whether err says that the links of a path go in a circle, or that
// it is too long with them.
func leadsNowhere(err error) bool {
	return errors.Is(err, errLoop) || errors.Is(err, syscall.ENAMETOOLONG)
}

// A pathError says that a rule's path cannot be followed.
type pathError struct {
	op, path string
	err      error
}

func (e *pathError) Error() string {
	return fmt.Sprintf("sandbox unavailable: %s %s: %v", e.op, e.path, e.err)
}
func (e *pathError) Unwrap() error        { return e.err }
func (e *pathError) Is(target error) bool { return target == ErrUnavailable }

// follow resolves the links in an absolute clean path, noting them in b.links.
func (b *builder) follow(at string) (found, error) {
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
			f.real = slashpath.Dir(f.real)
			continue
		}
		next := slashpath.Join(f.real, name)
		info, err := b.lstat(next)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && b.isMask(next, info):
			f.missing = next
			f.real = path.Clean(slashpath.Join(next, rest))
			return f, nil
		case errors.Is(err, errForeign):
			f.blocked = f.real
			return f, nil
		case err != nil:
			return f, &pathError{"look at", next, errors.Unwrap(err)}
		}
		if info.Mode()&os.ModeSymlink == 0 {
			f.real = next
			f.dir = info.IsDir()
			continue
		}
		target, err := b.readlink(next)
		if err != nil {
			return f, &pathError{"read link", next, errors.Unwrap(err)}
		}
		if hops++; hops > slashpath.MaxLinks {
			return f, &pathError{"follow", at, errLoop}
		}
		b.links[next] = target
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

// isMask reports whether a mask is at a path. A directory of the same mode that holds
// something, or that the policy lets be written, is none: the confined process may have
// made it so.
func (b *builder) isMask(at string, info os.FileInfo) bool {
	if !isMask(info) || !isEmpty(at) {
		return false
	}
	i, is := findRule(b.rules, at)
	return !is || b.rules[i].Access != Write
}

// lstat is os.Lstat, also in directories whose owner has taken his own rights away.
func (b *builder) lstat(at string) (info os.FileInfo, err error) {
	err = b.inside(slashpath.Dir(at), func() (err error) {
		info, err = os.Lstat(at)
		return err
	})
	return info, err
}

// readlink is os.Readlink in such directories.
func (b *builder) readlink(at string) (target string, err error) {
	err = b.inside(slashpath.Dir(at), func() (err error) {
		target, err = os.Readlink(at)
		return err
	})
	return target, err
}

// openDir opens a directory, which must be no link, to list it.
func (b *builder) openDir(at string) (f *os.File, err error) {
	err = b.inside(at, func() (err error) {
		f, err = os.OpenFile(at, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		return err
	})
	return f, err
}

// inside does what takes rights to a directory, and borrows them where the confined
// process could take them. A command that runs meanwhile may take them away again.
func (b *builder) inside(dir string, do func() error) error {
	err := do()
	for range maxOpenings {
		if !errors.Is(err, os.ErrPermission) || !b.writable(dir) {
			return err
		}
		if err := b.borrow(dir); err != nil {
			return err
		}
		err = do()
	}
	if errors.Is(err, os.ErrPermission) {
		return &os.PathError{Op: "open", Path: dir, Err: errMoved}
	}
	return err
}

// borrow borrows the rights to a directory, and to one above it that keeps from that.
func (b *builder) borrow(dir string) error {
	err := b.borrowed.borrow(dir)
	up := slashpath.Dir(dir)
	if !errors.Is(err, os.ErrPermission) || up == dir || !b.writable(up) {
		return err
	}
	if err := b.borrow(up); err != nil {
		return err
	}
	return b.borrowed.borrow(dir)
}

// writable reports whether the confined process may change the mode of a directory.
func (b *builder) writable(at string) bool {
	return accessIn(b.rules, at) == Write
}

type builder struct {
	policy   *Policy
	borrowed *rights
	links    map[string]string
	rules    []Rule          // by real path, of what exists
	kinds    map[string]bool // whether a real path is a directory
	own      map[string]bool // whether a rule is not one of the policy
	absent   []absentRule    // of what does not exist
	via      []viaRule       // rules that lead through links
	linked   []linkedRule    // rules to write that lead through links
	held     []string        // links that must not be replaced
	// regranted are what is beside denied matches in a directory that has too many.
	regranted map[string]bool
	listed    map[string]bool // those directories
	fleeting  map[string]bool // what no rule names, by real path
	// inner are files with other names in directories that patterns match, and looked is
	// how many entries of these were looked at.
	inner  []os.FileInfo
	looked int
}

type absentRule struct {
	rule    Rule
	missing string
}

type linkedRule struct {
	rule  Rule
	found found
}

type viaRule struct {
	rule Rule
	link string
}

// resolveRules resolves the rules that let something be written first: what they let be
// changed is not to be trusted.
func (b *builder) resolveRules() error {
	for _, writes := range []bool{true, false} {
		for _, r := range b.policy.Rules {
			if (r.Access == Write) != writes {
				continue
			}
			if err := b.addRule(r); err != nil {
				return err
			}
		}
		if writes {
			if err := b.addLinked(); err != nil {
				return err
			}
		}
	}
	for _, v := range b.via {
		if b.writable(slashpath.Dir(v.link)) {
			return unavailablef("%s leads through the link %s, which the policy lets be replaced", v.rule.Path, v.link)
		}
	}
	if err := b.denyGlobs(); err != nil {
		return err
	}
	b.denyOtherNames()
	return nil
}

func (b *builder) addRule(r Rule) error {
	f, err := b.follow(r.Path)
	if r.Access == Write && leadsNowhere(err) {
		return nil // a command may have made it so, and nothing is there to be written
	}
	if err != nil {
		return err
	}
	if r.Access == Write && len(f.through) > 0 {
		b.linked = append(b.linked, linkedRule{r, f})
		return nil
	}
	for _, l := range f.through {
		b.via = append(b.via, viaRule{r, l})
	}
	switch {
	case f.blocked != "":
		b.put(found{real: f.blocked, dir: true}, Deny)
		return nil
	case !f.exists:
		if r.Access != Write { // nothing is made to be written
			b.absent = append(b.absent, absentRule{Rule{f.real, r.Access}, f.missing})
		}
		return nil
	}
	return b.addFound(f, r.Access)
}

func (b *builder) addFound(f found, access Access) error {
	if slashpath.Within(f.real, "/proc") && f.real != "/proc" || f.real == "/proc" && access == Write {
		return b.addProc(f.real, access)
	}
	b.put(f, access)
	return nil
}

// addLinked adds the rules that let be written what links lead to. One that the policy
// lets be replaced gives nothing, since a command may have made it. One that another
// policy may have let be made is refused.
func (b *builder) addLinked() error {
	for _, l := range b.linked {
		if slices.ContainsFunc(l.found.through, func(at string) bool { return b.writable(slashpath.Dir(at)) }) {
			continue
		}
		for _, at := range l.found.through {
			if !isTrustedDir(slashpath.Dir(at)) {
				return unavailablef("%s leads through the link %s, which a command may have made: name %s instead",
					l.rule.Path, at, l.found.real)
			}
		}
		if l.found.exists {
			if err := b.addFound(l.found, Write); err != nil {
				return err
			}
		}
	}
	return nil
}

// denyGlobs denies what the patterns match.
func (b *builder) denyGlobs() error {
	matches, err := b.findMatches()
	if err != nil {
		return err
	}
	b.denyMatches(matches, few(slices.Clone(matches), MaxGlobMatches))
	return nil
}

// findMatches returns what the patterns match, sorted by path.
func (b *builder) findMatches() ([]match, error) {
	globs, err := compileGlobs(b.policy.Globs)
	if err != nil {
		return nil, err
	}
	s := globScan{b: b, depth: MaxGlobDepth}
	if b.policy.GlobDepth > 0 {
		s.depth = b.policy.GlobDepth
	}
	for len(globs) > 0 {
		n := 1
		for n < len(globs) && globs[n].base == globs[0].base {
			n++
		}
		if err := s.expand(globs[0].base, globs[:n]); err != nil {
			return nil, err
		}
		globs = globs[n:]
	}
	return outermost(s.matches), nil
}

// denyMatches denies the places of list, which stand for all matches.
func (b *builder) denyMatches(all, list []match) {
	granted := slices.Clone(b.rules)
	var denied []Rule
	for _, m := range list {
		isLink := m.kind&os.ModeSymlink != 0
		switch {
		case m.foreign && b.isVital(m.path):
			continue
		case isLink:
			denied = append(denied, b.targetOf(m.path)...)
		case m.whole && b.holdsRule(m.path):
			b.listed[m.path] = true
			denied = append(denied, b.regrant(m.path, all, accessIn(granted, m.path))...)
		}
		if m.kind.IsDir() && !m.whole && b.writable(m.path) {
			b.noteNames(m.path)
		}
		if !isLink || b.writable(slashpath.Dir(m.path)) {
			denied = append(denied, b.deny(m.path, m.kind.IsDir()))
		}
	}
	b.addRules(denied)
}

// deny returns the rule that denies what was found on the disk.
func (b *builder) deny(at string, dir bool) Rule {
	b.kinds[at], b.fleeting[at] = dir, true
	return Rule{at, Deny}
}

// addRules adds many rules at once.
func (b *builder) addRules(more []Rule) {
	all := append(b.rules, more...)
	slices.SortStableFunc(all, func(a, b Rule) int { return slashpath.Compare(a.Path, b.Path) })
	b.rules = all[:0]
	for _, r := range all {
		if n := len(b.rules); n > 0 && b.rules[n-1].Path == r.Path {
			b.rules[n-1].Access = max(b.rules[n-1].Access, r.Access)
			continue
		}
		b.rules = append(b.rules, r)
	}
}

// targetOf denies what a link that matches leads to. The link itself need be denied
// only where it can be replaced; one that leads nowhere, or to what no command can do
// without, denies nothing else.
func (b *builder) targetOf(at string) []Rule {
	f, err := b.follow(at)
	if err != nil {
		return nil
	}
	inside := b.writable(slashpath.Dir(at))
	b.pinLinks(f.through[1:])
	switch {
	case f.blocked != "":
		return []Rule{b.deny(f.blocked, true)}
	case !f.exists, f.real == "/", inside && b.isVital(f.real):
		return nil
	}
	return []Rule{b.deny(f.real, f.dir)}
}

// isVital reports whether commands could not run without at: it has the system's
// programs, or a rule of the policy is for something in it.
func (b *builder) isVital(at string) bool {
	for _, sys := range append([]string{"/proc", "/sys", "/dev"}, minimalReads...) {
		if slashpath.Within(at, sys) || slashpath.Within(sys, at) {
			return true
		}
	}
	return b.holdsRule(at)
}

// holdsRule reports whether the policy lets something be used that is at, or in it.
func (b *builder) holdsRule(at string) bool {
	i, _ := findRule(b.rules, at)
	for ; i < len(b.rules) && slashpath.Within(b.rules[i].Path, at); i++ {
		if b.rules[i].Access != Deny {
			return true
		}
	}
	return false
}

// maxRegranted is how much of a directory with too many matches can still be used.
const maxRegranted = 1024

// regrant returns rules that allow the entries which do not match, in a directory that is
// denied whole because it has too many matches. Commands that work there can go on.
func (b *builder) regrant(dir string, all []match, access Access) []Rule {
	f, err := b.openDir(dir)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	var rules []Rule
	for len(rules) < maxRegranted {
		entries, err := f.ReadDir(4096)
		for _, e := range entries {
			at := slashpath.Join(dir, e.Name())
			_, matches := slices.BinarySearchFunc(all, at, func(m match, at string) int { return slashpath.Compare(m.path, at) })
			_, ruled := findRule(b.rules, at)
			if matches || ruled || len(rules) == maxRegranted {
				continue
			}
			rules = append(rules, Rule{at, access})
			b.fleeting[at] = true
			b.kinds[at], b.regranted[at] = e.IsDir(), true
		}
		if err != nil {
			break
		}
	}
	return rules
}

// pinLinks keeps links from being replaced that the policy would let be. It reports
// whether there are any.
func (b *builder) pinLinks(links []string) bool {
	some := false
	for _, l := range links {
		if b.writable(slashpath.Dir(l)) {
			b.held = append(b.held, l)
			some = true
		}
	}
	return some
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

// protect adds the rules for protected names in writable directories.
func (b *builder) protect() error {
	if b.policy.asksFullWrite() {
		return nil
	}
	for _, r := range append([]Rule(nil), b.rules...) {
		if r.Access != Write || !b.kinds[r.Path] || slashpath.Within(r.Path, "/dev") || slices.Contains(protectedNames, path.Base(r.Path)) || b.regranted[r.Path] {
			continue
		}
		for _, name := range protectedNames {
			if err := b.protectName(slashpath.Join(r.Path, name)); err != nil {
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
	info, err := b.lstat(at)
	switch {
	case errors.Is(err, errForeign):
		return nil // the directory is denied
	case errors.Is(err, os.ErrNotExist), err == nil && b.isMask(at, info):
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
		target = slashpath.Join(slashpath.Dir(file), target)
	}
	f, err := b.follow(path.Clean(target))
	if leadsNowhere(err) {
		return nil // as one that is missing
	}
	if err != nil {
		return err
	}
	if !f.exists || accessIn(b.rules, f.real) != Write {
		return nil
	}
	replaceable := b.pinLinks(f.through) // which a command may have made, where nothing was
	if _, own := findRule(b.rules, f.real); own && replaceable {
		return nil
	} else if own {
		return unavailablef("%s points to the writable root %s", file, f.real)
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
		l.Places = append(l.Places, place{Path: r.Path, Access: r.Access, Dir: b.kinds[r.Path], Own: b.own[r.Path], List: b.listed[r.Path], Fleeting: b.fleeting[r.Path] && !b.policy.has(r.Path)})
	}
	for _, a := range b.absent {
		if accessIn(kept, slashpath.Dir(a.missing)) == Write {
			l.Places = append(l.Places, place{Path: a.missing, Access: a.rule.Access, Dir: true, Mask: true})
		}
	}
	l.Places = append(l.Places, b.pins(kept, l.Places)...)
	slices.SortStableFunc(l.Places, func(a, b place) int {
		if a.Path == b.Path && a.Mask != b.Mask && a.Mask { // a mask that a pattern has matched stays only while it is held
			return -1
		}
		if a.Path == b.Path && a.Mask != b.Mask {
			return 1
		}
		return slashpath.Compare(a.Path, b.Path)
	})
	l.Places = slices.CompactFunc(l.Places, func(a, b place) bool { return a.Path == b.Path })
	for at, target := range b.links {
		l.Links = append(l.Links, link{at, target})
	}
	slices.SortFunc(l.Links, func(a, b link) int { return slashpath.Compare(a.Path, b.Path) })
	l.All = slices.Clone(l.Places)
	return l, nil
}

// pins returns the writable directories between a writable place and something in it
// that is protected or denied, and links on the way to what is denied. Moved away, they
// would leave its path free for something else, and take it where no rule is.
func (b *builder) pins(kept []Rule, places []place) []place {
	var list []place
	seen := make(map[string]bool)
	above := func(at string) {
		for dir := slashpath.Dir(at); dir != "/" && !seen[dir]; dir = slashpath.Dir(dir) {
			seen[dir] = true
			if _, is := findRule(kept, dir); is || accessIn(kept, dir) != Write {
				return
			}
			list = append(list, place{Path: dir, Access: Write, Dir: true, Pin: true, Fleeting: true})
		}
	}
	for _, p := range places {
		if p.Access != Write {
			above(p.Path)
		}
	}
	for _, l := range b.held {
		if accessIn(kept, l) == Write {
			list = append(list, place{Path: l, Access: Write, Pin: true, Fleeting: true})
			above(l)
		}
	}
	return list
}

func exists(at string) bool {
	_, err := os.Lstat(at)
	return err == nil
}
