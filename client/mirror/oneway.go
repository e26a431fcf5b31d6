package mirror

import "github.com/wsd-dev/wsd/fs/tree"

// guard holds the path of an entry in conflict, unless both sides have the same there: what
// the remote has changed is neither taken nor overwritten.
func (d *decision) guard(x *tree.Entry) error {
	cur, err := d.at(x.Path)
	if err != nil {
		return err
	}
	if same(cur, x) {
		d.taken(x)
		return nil
	}
	if remote, _ := d.m.roots.toRemote(x.Path); d.m.s.sent.Prints[remote] != "" && d.m.s.sent.Prints[remote] == printOf(x) {
		return nil // what we sent, and have changed since
	}
	here := tree.Entry{Kind: tree.KindDelete, Path: x.Path}
	if cur != nil {
		here = *cur
	}
	return d.resolve(x, cur, []tree.Entry{here})
}
