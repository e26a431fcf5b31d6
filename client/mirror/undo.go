package mirror

import (
	"errors"
	iofs "io/fs"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// undo has the remote become what is here at the path of an entry, and keeps the version
// that goes there.
func (d *decision) undo(x *tree.Entry) error {
	cur, settled, err := d.settles(x)
	if err != nil || settled {
		return err
	}
	d.letGo(x.Path)
	if err := d.keepUndone(x, cur); err != nil {
		return err
	}
	if live(cur) {
		return d.sendInstead(x)
	}
	if cur != nil && d.m.s.changed(cur.Path, cur.Rev) {
		return nil // that it is removed here is going to be sent
	}
	return d.bury(x)
}

// settles decides about an entry that is no change of the remote's: one that is here as well,
// or that came from here. It reports whether it was one, and returns what is here at its path.
func (d *decision) settles(x *tree.Entry) (cur *tree.Entry, settled bool, err error) {
	if cur, err = d.at(x.Path); err != nil {
		return nil, false, err
	}
	if same(cur, x) {
		d.taken(x)
		return cur, true, nil
	}
	return cur, d.cameFromHere(printOf(x), cur), nil
}

// cameFromHere reports whether a version of the remote's was sent from here, where it has changed
// to cur since, which is going to be sent.
func (d *decision) cameFromHere(print string, cur *tree.Entry) bool {
	if cur == nil || !d.m.s.changed(cur.Path, cur.Rev) {
		return false
	}
	if h, known := d.isHeld(cur.Path); known && h.Local == printHere(cur) {
		return false
	}
	remote, _ := d.m.roots.toRemote(cur.Path)
	sent := d.m.s.sent.Prints[remote]
	return sent != "" && sent == print
}

// keepUndone keeps the remote's version of a file or link.
func (d *decision) keepUndone(x, cur *tree.Entry) error {
	if x.Kind != tree.KindFile && x.Kind != tree.KindSymlink {
		return nil
	}
	d.undone = append(d.undone, x.Path)
	if !d.keep {
		return nil
	}
	v := lost.Version{Path: x.Path, At: d.edit.Now(), Why: lost.Undone, Entry: *x}
	if live(cur) {
		v.By = tree.Fingerprint(cur)
	}
	return lost.Keep(d.edit, &v)
}

// bury has a path that only the remote has removed there: it is made in the tree, and
// removed again with the directories that it takes.
func (d *decision) bury(x *tree.Entry) error {
	top := x.Path
	for p := above(x.Path); p != "/"; p = above(p) {
		there, err := d.at(p)
		if err != nil {
			return err
		}
		if live(there) {
			if there.Kind != tree.KindDir { // it takes the place of x
				if x.Kind == tree.KindFile || x.Kind == tree.KindSymlink {
					d.displaced = append(d.displaced, *x)
				}
				return nil
			}
			break
		}
		top = p
	}
	if !d.keep { // the content is not held
		d.more = append(d.more, tree.Entry{Kind: tree.KindDelete, Rev: d.edit.Rev(), Path: x.Path, Prior: tree.Fingerprint(x)})
		return nil
	}
	if _, err := d.edit.Apply(x, tree.RealParents); err != nil {
		return err
	}
	if _, err := d.edit.Apply(&tree.Entry{Kind: tree.KindDelete, Path: top}, 0); err != nil {
		return err
	}
	tomb, err := d.edit.Entry(x.Path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	d.more = append(d.more, tomb)
	return err
}
