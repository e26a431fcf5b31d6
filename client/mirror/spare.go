package mirror

import (
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Stayed is a path that one side removed, and that stays on the other with what was never
// synchronised: what is ignored, what no tree can have, what has just been made there.
type Stayed struct {
	Path     string   // of the local tree
	Names    []string // first of the paths that hold it up
	More     int      // how many there are beside
	AtRemote bool     // it stays there, else here
}

// spare returns the entries that are applied in place of one, which takes away nothing that
// the remote could not know, and what stays.
func (d *decision) spare(x *tree.Entry) ([]tree.Entry, *changes.Kept, error) {
	if aside, err := d.hiddenAside(x); err != nil || aside != nil {
		return aside, &changes.Kept{Path: x.Path, Names: []string{x.Path}}, err
	}
	if x.Kind == tree.KindDir {
		return []tree.Entry{*x}, nil, nil
	}
	var made []string
	s := changes.Sparer{Edit: d.edit, Keep: func(path string, c *tree.Child) (bool, error) {
		if d.m.filter.hides(path, c.Node.Kind == tree.KindDir) {
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
	}, Along: func(path, to string, c *tree.Child) bool {
		dir := c.Node.Kind == tree.KindDir
		return d.m.filter.hides(path, dir) && d.m.filter.hides(to, dir)
	}, Renamed: d.renamed}
	list, kept, err := s.Entries(x)
	if err != nil || kept == nil || x.Kind != tree.KindDelete {
		return list, kept, err
	}
	return list, kept, d.sendAbove(x.Path, made)
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
