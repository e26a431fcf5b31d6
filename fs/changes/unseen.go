package changes

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"strings"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// unseen keeps entries of a push from taking away what their sender has not seen: what has
// changed here behind its base, and not by the push itself.
type unseen struct {
	edit      *tree.Edit
	base      tree.Cursor
	before    int64     // our revision before the push
	conflicts *[]string // gets the paths of entries that are left out
}

// entries leaves out what must be.
func (u *unseen) entries(in iter.Seq2[tree.Entry, error]) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		for e, err := range in {
			if err == nil {
				var out bool
				out, err = u.takes(&e)
				if err == nil && out {
					if len(*u.conflicts) < MaxConflicts {
						*u.conflicts = append(*u.conflicts, e.Path)
						continue
					}
					err = protocolErrorf("more than %d of the paths have changed since they were fetched; send fewer at once", MaxConflicts)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// takes reports whether an entry would take away what its sender has not seen.
func (u *unseen) takes(x *tree.Entry) (bool, error) {
	cur, err := u.at(x.Path)
	if err != nil {
		return false, err
	}
	live := cur != nil && cur.Kind != tree.KindDelete
	meant := live && x.Kind == tree.KindDelete && x.Prior != "" && x.Prior == tree.Fingerprint(cur)
	if u.changed(cur) && !meant && !says(cur, x) {
		return true, nil
	}
	switch {
	case live && cur.Kind == tree.KindDir && x.Kind != tree.KindDir:
		return u.below(x.Path)
	case !live && x.Kind != tree.KindDelete:
		return u.onTheWay(x.Path)
	}
	return false, nil
}

// at is what there is at a path: a node, a tomb, or nil.
func (u *unseen) at(path string) (*tree.Entry, error) {
	e, err := u.edit.Entry(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for changes: %w", err)
	}
	return &e, nil
}

func (u *unseen) changed(e *tree.Entry) bool {
	return e != nil && e.Rev <= u.before && After(e).Compare(u.base) > 0
}

// says reports whether what is at a path, nil for nothing, is what an entry says.
func says(cur, x *tree.Entry) bool {
	print := ""
	if cur != nil {
		print = tree.Fingerprint(cur)
	}
	return print == tree.Fingerprint(x)
}

// below reports whether something has changed in a directory.
func (u *unseen) below(path string) (bool, error) {
	info, err := u.edit.Lstat(path)
	if err != nil {
		return false, err
	}
	for last := ""; ; {
		list, err := u.edit.Tx().Children(info.Ino, last, fetchPage)
		if err != nil {
			return false, err
		}
		for i := range list {
			last = list[i].Name.Name
			child := slashpath.Join(path, last)
			e, err := u.at(child)
			if err != nil || u.changed(e) {
				return err == nil, err
			}
			if e != nil && e.Kind == tree.KindDir {
				if found, err := u.below(child); found || err != nil {
					return found, err
				}
			}
		}
		if len(list) < fetchPage {
			return false, nil
		}
	}
}

// onTheWay reports whether a directory above a path has been removed, or become something
// else.
func (u *unseen) onTheWay(path string) (bool, error) {
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		e, err := u.at(path[:i])
		if err != nil {
			return false, err
		}
		if e != nil && e.Kind != tree.KindDir && u.changed(e) {
			return true, nil
		}
		if e != nil && e.Kind != tree.KindDelete {
			return false, nil
		}
	}
	return false, nil
}

// alone fails with CodeUnseen if a file or link has changed since a base.
func alone(e *tree.Edit, base tree.Cursor) error {
	root, err := e.Lstat("/")
	if err != nil {
		return fmt.Errorf("look for changes: %w", err)
	}
	node, err := e.Tx().Node(root.Ino)
	if err != nil {
		return fmt.Errorf("look for changes: %w", err)
	}
	low := base.Rev
	if base.Within {
		low--
	}
	look := func(c tree.Child) error {
		if c.Node.Kind == tree.KindDir || c.Node.Stub {
			return nil
		}
		return &Error{Code: CodeUnseen, Err: errors.New("there are files that the sender has not seen")}
	}
	if err := e.Tx().NamesAfter(node.Namespace, low, look); err != nil {
		return err
	}
	return e.Tx().NodesAfter(node.Namespace, low, look)
}
