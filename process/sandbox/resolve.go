package sandbox

import (
	"path"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

// A Context is what the places in a sandbox object may depend on besides itself.
type Context struct {
	// Cwd anchors relative patterns when the object gives no cwd. Empty: such entries
	// are refused, and so are project roots.
	Cwd string
	// TempDir is TMPDIR as the confined program will see it, empty if unset.
	TempDir string
}

// Resolve makes the policy of s. It knows nothing of the disk. What it does not
// understand it refuses, unless ignoring it can only take rights away.
func Resolve(s *protocol.Sandbox, in Context) (*Policy, error) {
	if err := checkWords(s); err != nil {
		return nil, err
	}
	perms := &s.Permissions
	p := &Policy{Network: perms.Network == protocol.NetworkEnabled, Legacy: s.UseLegacyLandlock}
	switch {
	case perms.Type == protocol.PermissionsDisabled:
		return &Policy{Unconfined: true, Network: true}, nil
	case perms.Type == protocol.PermissionsExternal, perms.FileSystem.Type == protocol.FileSystemUnrestricted:
		p.Unconfined = true
		return p, nil
	}
	places, err := newPlaces(s, in)
	if err != nil {
		return nil, err
	}
	if err := p.addEntries(perms.FileSystem, places); err != nil {
		return nil, err
	}
	if i, found := findRule(p.Rules, "/"); found && p.Rules[i].Access == Deny {
		p.Rules = slices.Delete(p.Rules, i, i+1) // nothing is listed then: all is hidden
	}
	return p, nil
}

func (p *Policy) addEntries(fs *protocol.FileSystemPermissions, places *places) error {
	if d := fs.GlobScanMaxDepth; d != nil {
		p.GlobDepth = int(min(*d, MaxGlobDepth))
		if *d == 0 {
			return protocol.InvalidParams("glob_scan_max_depth must not be 0")
		}
	}
	minimal := false
	for _, entry := range fs.Entries {
		access := accessOf(entry.Access)
		switch entry.Path.Type {
		case "path":
			at, err := hostPath(whatPath, *entry.Path.Path)
			if err != nil {
				return err
			}
			p.add(at, access)
		case "glob_pattern":
			pattern, err := places.glob(*entry.Path.Pattern, access)
			if err != nil {
				return err
			}
			p.Globs = append(p.Globs, pattern)
		case "special":
			at, err := places.special(entry.Path.Value, access)
			if err != nil {
				return err
			}
			for _, a := range at {
				p.add(a, access)
			}
			minimal = minimal || entry.Path.Value.Kind == "minimal"
		}
	}
	slices.Sort(p.Globs)
	p.Globs = slices.Compact(p.Globs)
	if minimal && !p.has("/") {
		p.addMinimal()
	}
	return nil
}

func accessOf(word string) Access {
	switch word {
	case protocol.AccessRead:
		return Read
	case protocol.AccessWrite:
		return Write
	}
	return Deny // also "none", its older name
}

// minimalReads is what running a program takes.
var minimalReads = []string{
	"/bin", "/sbin", "/usr", "/etc", "/lib", "/lib32", "/lib64", "/libx32",
	"/nix/store", "/run/current-system/sw",
}

// addMinimal lets the system's programs and their files be read. Entries of the
// policy's own for the same paths have precedence.
func (p *Policy) addMinimal() {
	p.Minimal = true
	own := slices.Clone(p.Rules)
	for _, path := range minimalReads {
		if _, found := findRule(own, path); !found {
			p.add(path, Read)
		}
	}
}

// places are the directories that entries can name by role.
type places struct {
	cwd   string   // of relative patterns, empty if unknown
	given bool     // cwd was in the object or the context
	roots []string // the project roots
	temps []string
	home  string
	wide  bool // some entry allows writing
}

func newPlaces(s *protocol.Sandbox, in Context) (*places, error) {
	cwd, roots := s.Cwd, s.WorkspaceRoots
	if c := s.PolicyContext; c != nil {
		roots = c.WorkspaceRoots
		if c.Cwd != nil {
			cwd = c.Cwd
		}
	}
	p := &places{cwd: in.Cwd}
	var err error
	if cwd != nil {
		if p.cwd, err = hostPath(whatCwd, *cwd); err != nil {
			return nil, err
		}
	}
	if p.roots, err = hostPaths(whatRoot, roots); err != nil {
		return nil, err
	}
	if p.temps, err = hostPaths(whatTemp, s.TemporaryDirectories); err != nil {
		return nil, err
	}
	if path.IsAbs(in.TempDir) && !strings.ContainsRune(in.TempDir, 0) {
		p.temps = append(p.temps, path.Clean(in.TempDir))
	}
	if s.UserHomeDir != nil {
		if p.home, err = hostPath(whatHome, *s.UserHomeDir); err != nil {
			return nil, err
		}
	}
	p.given = p.cwd != ""
	p.wide = slices.ContainsFunc(s.Permissions.FileSystem.Entries, func(e protocol.PermissionEntry) bool {
		return e.Access == protocol.AccessWrite
	})
	return p, nil
}

func hostPaths(what string, uris []string) ([]string, error) {
	var paths []string
	for _, uri := range uris {
		path, err := hostPath(what, uri)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// special returns the directories of a place named by role. There may be none.
func (p *places) special(v *protocol.SpecialPath, access Access) ([]string, error) {
	sub, err := subpath(v)
	if err != nil {
		return nil, err
	}
	switch v.Kind {
	case "root":
		return []string{"/"}, nil
	case "project_roots", "current_working_directory": // the wire treats them as one
		if !p.given {
			return nil, errNeedsCwd
		}
		roots := make([]string, len(p.roots))
		for i, root := range p.roots {
			roots[i] = slashpath.Join(root, sub)
		}
		return roots, nil
	case "tmpdir":
		return p.temps, nil
	case "slash_tmp":
		return []string{"/tmp"}, nil
	case "minimal":
		if access == Deny {
			return nil, protocol.InvalidParams("access to the special path `minimal` cannot be denied")
		}
		return nil, nil // addMinimal
	default: // "unknown", a kind of tomorrow's
		if access == Deny || access == Read && p.wide {
			return nil, unavailablef("the policy restricts a special path of unknown kind")
		}
		return nil, nil // what it would grant is not granted
	}
}

// subpath returns the clean relative path below a place, empty for the place itself.
func subpath(v *protocol.SpecialPath) (string, error) {
	if v.Subpath == nil || *v.Subpath == "" {
		return "", nil
	}
	sub := *v.Subpath
	switch {
	case v.Kind != "project_roots" && v.Kind != "current_working_directory":
		return "", protocol.InvalidParams("the special path `%s` takes no subpath", v.Kind)
	case path.IsAbs(sub), strings.ContainsRune(sub, 0), slices.Contains(strings.Split(sub, "/"), ".."):
		return "", protocol.InvalidParams("the subpath of a special path must stay below it")
	}
	return strings.TrimPrefix(path.Clean(sub), "."+"/"), nil
}

// glob returns the absolute form of a pattern.
func (p *places) glob(pattern string, access Access) (string, error) {
	if access != Deny {
		return "", protocol.InvalidParams("a glob pattern in a sandbox can only deny access")
	}
	base := ""
	switch rest, home := strings.CutPrefix(pattern, "~/"); {
	case home:
		if p.home == "" {
			return "", protocol.InvalidParams("a glob pattern below ~ requires userHomeDir")
		}
		pattern, base = rest, p.home
	case !path.IsAbs(pattern):
		if !p.given {
			return "", errNeedsCwd
		}
		base = p.cwd
	}
	return absolutePattern(base, pattern)
}
