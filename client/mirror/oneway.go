package mirror

import "github.com/wsd-dev/wsd/fs/tree"

// guard holds the path of an entry in conflict, unless both sides have the same there: what
// the remote has changed is neither taken nor overwritten.
func (d *decision) guard(x *tree.Entry) error {
	cur, settled, err := d.settles(x)
	if err != nil || settled {
		return err
	}
	here := tree.Entry{Kind: tree.KindDelete, Path: x.Path}
	if cur != nil {
		here = *cur
	}
	return d.resolve(x, cur, []tree.Entry{here})
}
