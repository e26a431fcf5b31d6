package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Stayed is a path that one side removed, and that stays on the other with what was never
// synchronised: what is ignored, what no tree can have, what has just been made there. Or it is
// NotSent.
type Stayed struct {
	Path     string   // of the local tree
	Names    []string // first of the paths that hold it up
	More     int      // how many there are beside
	AtRemote bool     // it stays there, else here
	// NotSent: nothing was removed. The path is here and new, and is not sent, since the remote has
	// something of another kind at Names that rules hide.
	NotSent bool
}

// spare returns the entries that are applied in place of one, which takes away nothing that
// the remote could not know, and what stays.
func (d *decision) spare(x *tree.Entry) ([]tree.Entry, *changes.Kept, error) {
	if aside, path, err := d.hiddenAside(x); err != nil || aside != nil {
		return aside, &changes.Kept{Path: path, Names: []string{path}}, err
	}
	if x.Kind == tree.KindDir {
		return []tree.Entry{*x}, nil, nil
	}
	var made []string
	s := changes.Sparer{Edit: d.edit, Keep: func(path string, c *tree.Child) (bool, error) {
		if d.arrivals.leaves(path) {
			return false, nil
		}
		if d.m.filter.hides(path, c.Node.Kind == tree.KindDir) || d.rawHere && c.Node.Kind == tree.KindSymlink && !isPlain(c.Node.Target) {
			return true, nil
		}
		if d.m.isGitFile(path) {
			// It stays with what it hides, which would be sent without it.
			if stays, err := d.hidesBelow(above(path)); stays || err != nil {
				return stays, err
			}
		}
		e, err := d.at(path)
		if err != nil || x.Kind != tree.KindDelete || !live(e) || !d.changed(path, e.Rev) || d.meant(e) {
			return false, err
		}
		is, err := d.madeHere(path)
		if is {
			made = append(made, path)
		}
		return is, err
	}, Along: func(path, to string, c *tree.Child) (bool, error) {
		dir := c.Node.Kind == tree.KindDir
		if !d.m.filter.hides(path, dir) || !d.m.filter.hides(to, dir) {
			return false, nil
		}
		if becomes, err := d.becomesCode(path, to, c); becomes || err != nil {
			return false, err
		}
		return d.goesAlong(path, to), nil
	}, Renamed: d.renamed}
	list, kept, err := s.Entries(x)
	if err != nil || kept == nil || x.Kind != tree.KindDelete {
		return list, kept, err
	}
	if len(made) == 0 { // else it is sent
		if d.left == nil {
			d.left = map[string]string{}
		}
		d.left[x.Path] = d.m.identity(x.Path)
	}
	return list, kept, d.sendAbove(x.Path, made)
}

// arrivals are the paths that what is ignored may not go along to, or goes along from and to.
type arrivals struct {
	taken map[string]bool // with all that is below them
	above map[string]bool // the directories that they are in
	gone  map[string]bool // that the batch removes
	from  map[string]bool
	to    map[string]bool
}

// goesAlong notes that what is ignored may go along to a path, and reports whether it may: unless an
// entry of the batch, or something else that goes along, is there, below it, or above it and no
// directory. A remote that tells the truth has none.
func (d *decision) goesAlong(path, to string) bool {
	a := &d.arrivals
	if a.taken == nil {
		*a = arrivals{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
		for i := range d.entries {
			e := &d.entries[i]
			hidden := d.m.filter.hides(e.Path, true) || d.m.filter.hides(e.Path, false)
			if e.Kind == tree.KindDelete {
				a.gone[e.Path] = true
			}
			if hidden || e.Kind != tree.KindDir && e.Kind != tree.KindDelete {
				a.take(e.Path)
			}
		}
	}
	if a.above[to] {
		return false
	}
	for p := to; p != "/"; p = above(p) {
		if a.taken[p] || a.gone[p] {
			return false
		}
	}
	a.take(to)
	a.from[path], a.to[to] = true, true
	return true
}

func (a *arrivals) take(path string) {
	a.taken[path] = true
	for p := above(path); p != "/" && !a.above[p]; p = above(p) {
		a.above[p] = true
	}
}

// leaves reports whether a path goes along with its directory, or one above it does.
func (a *arrivals) leaves(path string) bool { return covers(a.from, path) }

// moves reports whether an entry is of what goes along.
func (a *arrivals) moves(x *tree.Entry) bool {
	if x.Kind == tree.KindDelete {
		return a.leaves(x.Path)
	}
	return covers(a.to, x.Path)
}

// covers reports whether a path or one above it is in a set.
func covers(set map[string]bool, path string) bool {
	for p := path; len(set) > 0 && p != "/"; p = above(p) {
		if set[p] {
			return true
		}
	}
	return false
}

// becomesCode reports whether something of what is at a path is code at another one, where the
// remote has it go (isCode), and is none where it is.
func (d *decision) becomesCode(path, to string, c *tree.Child) (bool, error) {
	if d.m.isCode(to, c.Node.Kind) && !d.m.isCode(path, c.Node.Kind) {
		return true, nil
	}
	if c.Node.Kind != tree.KindDir {
		return false, nil
	}
	for last := ""; ; {
		list, err := d.edit.Tx().Children(c.Node.Ino, last, page)
		if err != nil {
			return false, err
		}
		for i := range list {
			last = list[i].Name.Name
			if becomes, err := d.becomesCode(slashpath.Join(path, last), slashpath.Join(to, last), &list[i]); becomes || err != nil {
				return becomes, err
			}
		}
		if len(list) < page {
			return false, nil
		}
	}
}

// renamedHere is the local path of a directory that the remote has renamed to a path of its own,
// "" if it has none or rules hide it.
func (m *Mirror) renamedHere(remote string) string {
	local, ok := m.roots.toLocal(remote)
	if remote == "" || !ok || m.roots.isRoot(local) || m.filter.hides(local, true) {
		return ""
	}
	return local
}

// renamedThere is the inverse of renamedHere.
func (m *Mirror) renamedThere(local string) string {
	remote, ok := m.roots.toRemote(local)
	if local == "" || !ok || m.roots.isRoot(local) || m.filter.hides(local, true) {
		return ""
	}
	return remote
}

// sendAbove has the directories sent that the remote has removed, and that are above
// something that was made here.
func (d *decision) sendAbove(top string, made []string) error {
	sent := map[string]bool{}
	for _, path := range made {
		for p := above(path); len(p) >= len(top) && !sent[p]; p = above(p) {
			sent[p] = true
			if err := d.sendAgain(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// stayedOf is how a list of an end's is told: as it calls its paths.
func (m *Mirror) stayedOf(list []changes.Kept, remote bool) []Stayed {
	var out []Stayed
	for _, k := range changes.Topmost(list) {
		t := Stayed{Path: k.Path, Names: k.Names, More: k.More, AtRemote: remote}
		if remote {
			t.Names = nil
			for _, name := range k.Names {
				if path, ok := m.roots.toLocal(name); ok {
					t.Names = append(t.Names, path)
				}
			}
			var ok bool
			if t.Path, ok = m.roots.toLocal(k.Path); !ok {
				continue
			}
		}
		out = append(out, t)
	}
	return out
}

// madeAgain notes that a directory which was removed here stays at the remote, and comes again, since a
// path in it is new there. Paths in it that rules hide stay as well.
func (d *decision) madeAgain(dir, path string) {
	k := d.again[dir]
	if k == nil {
		if d.again == nil {
			d.again = map[string]*changes.Kept{}
		}
		hidden := d.m.s.ignored.below(dir)
		for path, is := range d.hides {
			if is && strings.HasPrefix(path, dir+"/") && !slices.Contains(hidden, path) {
				hidden = append(hidden, path)
			}
		}
		slices.Sort(hidden)
		k = keptOf(dir, hidden)
		d.again[dir] = k
	}
	switch {
	case slices.ContainsFunc(k.Names, func(name string) bool { return strings.HasPrefix(path, name+"/") }):
	case len(k.Names) < maxKeptNames:
		k.Names = append(k.Names, path)
	default:
		k.More++
	}
}

// stayAgain lists what madeAgain has noted.
func (d *decision) stayAgain() []Stayed {
	var list []changes.Kept
	for _, dir := range slices.Sorted(maps.Keys(d.again)) {
		list = append(list, *d.again[dir])
	}
	out := d.m.stayedOf(list, false)
	for i := range out {
		out[i].AtRemote = true
	}
	return out
}

// tellStayed tells of what stays.
func (m *Mirror) tellStayed(list []Stayed, r *Result) {
	r.Stayed += len(list)
	for _, k := range list {
		m.log.Info("kept what was never synchronised", "path", k.Path, "first", k.Names, "remote", k.AtRemote)
		if m.cfg.Stayed != nil {
			m.cfg.Stayed(k)
		}
	}
}
