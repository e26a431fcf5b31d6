package mirror

import "github.com/wsd-dev/wsd/fs/tree"

// oursIsNothing reports whether the version here is to be sent of a path that is held in conflict, and
// that is of the remote's alone, or may have such below it (Config.Guard): then those are undone.
func (d *decision) oursIsNothing(top string, conflict bool) (bool, error) {
	if !conflict || d.policy != Ours {
		return false, nil
	}
	if d.nothing == nil {
		d.nothing = map[string]bool{}
	}
	is, known := d.nothing[top]
	if !known {
		cur, err := d.at(top)
		if err != nil {
			return false, err
		}
		is = cur == nil || d.m.cfg.Guard
		d.nothing[top] = is
	}
	return is, nil
}

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
