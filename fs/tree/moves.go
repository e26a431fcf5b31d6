package tree

import (
	"slices"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// A moved directory is one changed name and one Move: nothing below it is touched. The
// tombs of its old paths are written from the Move, as the subtree is then, before
// anything within the subtree changes and before a change stream is opened; so the
// subtree is still what was moved. Moving it on, or a directory above it, changes
// nothing within: an old path is OldPath and what the subtree has below it. As long as
// nobody can hold a cursor (see Tree.Share) there are no Moves at all.

// disturb writes the tombs that a change in the directory d, or of a node in it, makes
// due. A nil d is for the root as the node.
func (e *Edit) disturb(d *dir, node *Node) error {
	if len(e.moves) == 0 {
		return nil
	}
	return e.settle(func(m Move) bool {
		// A node with several names may be in a moved subtree by another one.
		return d.in(m.Ino) || node != nil && (node.Ino == m.Ino || node.Links > 1)
	})
}

// settle writes the tombs of the moves that due wants.
func (e *Edit) settle(due func(Move) bool) error {
	var err error
	e.moves = slices.DeleteFunc(e.moves, func(m Move) bool {
		if err != nil || !due(m) {
			return false
		}
		err = e.bury(m)
		return err == nil
	})
	return err
}

func (e *Edit) settleAll() error { return e.settle(func(Move) bool { return true }) }

// bury writes the tombs of one move.
func (e *Edit) bury(m Move) error {
	n, err := e.tx.Node(m.Ino)
	if err != nil {
		return err
	}
	if err := e.tx.PutTomb(e.ns.ID, Tomb{Path: m.OldPath, Rev: m.Rev, Prior: fingerprint(&n)}); err != nil {
		return err
	}
	err = below(e.tx, m.Ino, m.OldPath, func(path string, c *Child) error {
		return e.tx.PutTomb(e.ns.ID, Tomb{Path: path, Rev: m.Rev, Prior: fingerprint(&c.Node)})
	})
	if err != nil {
		return err
	}
	return e.tx.DeleteMove(e.ns.ID, m)
}

// page is how many entries of a directory are read at once.
const page = 1000

// below calls fn for all that is below a directory, each directory before its content.
// path is how the directory is called. fn may change rows of what it is given, but not
// which names there are.
func below(tx Tx, ino int64, path string, fn func(path string, c *Child) error) error {
	for after := ""; ; {
		list, err := tx.Children(ino, after, page)
		if err != nil {
			return err
		}
		for i := range list {
			c := &list[i]
			p := slashpath.Join(path, c.Name.Name)
			if err := fn(p, c); err != nil {
				return err
			}
			if c.Node.Kind == KindDir {
				if err := below(tx, c.Child, p, fn); err != nil {
					return err
				}
			}
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].Name.Name
	}
}
