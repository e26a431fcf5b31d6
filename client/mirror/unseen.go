package mirror

import (
	"strings"

	"github.com/wsd-dev/wsd/fs/tree"
)

// An unseen has, by path, what the local directory has and could not read (changes.Workspace.Unread). The tree may
// have older versions of it. The kind 0 stands for what no tree can have, such as a pipe: it is in the way of what
// comes, and no removal takes it.
type unseen map[string]tree.Entry

// unseenHere asks the local directory what it could not read. Other paths than those that are synchronised do
// not count.
func (m *Mirror) unseenHere() unseen {
	var u unseen
	for _, e := range m.cfg.Local.Unread() {
		if !m.looksAt(e.Path) {
			continue
		}
		if u == nil {
			u = unseen{}
		}
		u[e.Path] = e
	}
	return u
}

// over returns what could not be read at a path or above it.
func (u unseen) over(path string) (tree.Entry, bool) {
	for p := path; len(u) > 0 && p != "/" && p != ""; p = above(p) {
		if e, ok := u[p]; ok {
			return e, true
		}
	}
	return tree.Entry{}, false
}

// has reports whether what is at a path could not be read.
func (u unseen) has(path string) bool {
	_, is := u.over(path)
	return is
}

// addUnseen adds to the losers what could not be read here and is in the way of an entry: it may have changed.
// cur is what the tree has at the path of the entry.
func (d *decision) addUnseen(x, cur *tree.Entry, losers *[]tree.Entry) {
	if len(d.unseen) == 0 || !live(cur) && x.Kind == tree.KindDelete || same(cur, x) && !d.m.touches(cur, x) {
		return
	}
	if e, ok := d.unseen.over(x.Path); ok {
		switch {
		case e.Kind == 0 && x.Kind == tree.KindDelete: // it stays where it is
		case e.Path == x.Path && e.Kind == tree.KindDir && x.Kind == tree.KindDir: // each side has its own
		case e.Path == x.Path, e.Kind != tree.KindDir:
			addLoser(losers, &e)
		default:
			here := tree.Entry{Path: x.Path, Kind: tree.KindFile} // if there is one
			if live(cur) {
				here = *cur
				here.Rev = 0 // it is no change of its own
			}
			addLoser(losers, &here)
		}
	}
	if x.Kind == tree.KindDir {
		return
	}
	for path, e := range d.unseen {
		if e.Kind != 0 && strings.HasPrefix(path, x.Path+"/") {
			addLoser(losers, &e)
		}
	}
}

// holdsUnseen notes that a path is held in conflict, if it is, only because of what could not be read here: cur is what
// both sides had there.
func (d *decision) holdsUnseen(path string, cur *tree.Entry) {
	if h, known := d.isHeld(path); known && h.Conflict && h.Unkept != "" {
		h.Agreed = printHere(cur)
		d.remember(path, &h)
	}
}

// addLoser adds a version to those that lose, in the place of another one of its path.
func addLoser(losers *[]tree.Entry, e *tree.Entry) {
	for i := range *losers {
		if l := &(*losers)[i]; l.Path == e.Path {
			rev := l.Rev
			*l = *e
			l.Rev = rev // it is a change all the same
			return
		}
	}
	*losers = append(*losers, *e)
}
