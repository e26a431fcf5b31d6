package sandbox

import (
	"slices"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// An Alias is a directory that policies may call by another name: a workspace, which
// clients know by its mount point. At that name it need not be for everybody, so a rule
// that names something there is a rule for the directory itself as well.
type Alias struct{ Name, Path string } // both absolute and clean

// addAlias adds the rules and patterns by which p calls the directory by its other name.
func (p *Policy) addAlias(a Alias) {
	if a.Name == a.Path {
		return
	}
	for _, r := range slices.Clone(p.Rules) {
		if rest, ok := slashpath.Cut(r.Path, a.Name); ok {
			p.add(slashpath.Join(a.Path, rest), r.Access)
		}
	}
	name, path := escapeGlob(a.Name), escapeGlob(a.Path)
	for _, glob := range slices.Clone(p.Globs) {
		if rest, ok := slashpath.Cut(glob, name); ok {
			p.Globs = append(p.Globs, slashpath.Join(path, rest))
		}
	}
	slices.Sort(p.Globs)
	p.Globs = slices.Compact(p.Globs)
}
