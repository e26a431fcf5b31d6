package disk

import (
	"slices"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A released is content that files of the directory have by now, and that need not be apart from them.
type released struct {
	became []tree.Became
	taken  map[int64]bool // whether an object has become a file itself
	parts  []tree.Part    // of files that were copied
}

// add takes what another one has.
func (r *released) add(other *released) {
	r.parts = append(r.parts, other.parts...)
	for _, b := range other.became {
		r.object(b, other.taken[b.Object])
	}
}

// object notes that an object has become files, or one of them itself.
func (r *released) object(b tree.Became, taken bool) {
	if r.taken == nil {
		r.taken = map[int64]bool{}
	}
	if _, known := r.taken[b.Object]; !known {
		r.became = append(r.became, b)
	}
	r.taken[b.Object] = r.taken[b.Object] || taken
}

// release notes in the tree's store which objects have become files, and what else the files have by
// now that were brought. It returns the objects that are left over. Whether other files with the same
// content have it is known once the last page of the journal is done: late has what is left until then.
func (b *bringer) release(e *tree.Edit, last bool) (drop []int64, late released, err error) {
	var now released
	for _, it := range b.items {
		if it.kind != tree.KindFile || b.isShut(it.path) {
			continue
		}
		switch o := it.object; {
		case o == nil || o.files == 0:
			if !it.meta {
				late.parts = append(late.parts, it.parts...)
			}
		case o.left.Load() != 0:
		case o.shared:
			late.object(tree.Became{Parts: o.parts, Object: o.number, Files: o.files}, it.lent)
		default:
			now.object(tree.Became{Parts: o.parts, Object: o.number, Files: o.files}, it.lent)
		}
	}
	if last {
		now.add(b.later)
		now.add(&late)
		late = released{}
	}
	if len(now.became)+len(now.parts) == 0 {
		return nil, late, nil
	}
	var has tree.Keeper
	if last {
		has = b.keeper()
	}
	if len(now.became) > 0 {
		if drop, err = e.Release(now.became, has); err != nil {
			return nil, late, err
		}
		drop = slices.DeleteFunc(drop, func(number int64) bool { return now.taken[number] })
	}
	left, err := e.LeaveToFiles(now.parts, has)
	return append(drop, left...), late, err
}

// keeper knows which files of the directory have what the tree has, once all of the journal is done.
func (b *bringer) keeper() tree.Keeper {
	items := map[string]bool{} // whether they were brought
	for _, it := range b.items {
		items[it.path] = false
	}
	for _, path := range b.done {
		if _, is := items[path]; is {
			items[path] = true
		}
	}
	return func(path string) (bool, error) {
		rel, inside := b.w.where(path)
		if !inside || b.isShut(rel) || b.stuck.has(rel) {
			return false, nil
		}
		if brought, is := items[rel]; is {
			n := b.w.index.find(rel)
			return brought && n != nil && n.stat.mode&0o400 != 0, nil
		}
		return b.w.keeps(rel), nil
	}
}

// keeps reports whether a path that no entry is about to change is a file of the directory that can be read
// back. A file that a command has overwritten since counts as well: without an object, its content would be
// gone all the same.
func (w *Workspace) keeps(path string) bool {
	n := w.index.find(path)
	if n == nil || n.stat.kind != tree.KindFile || n.stat.mode&0o400 == 0 || w.isStuck(path) {
		return false
	}
	for n = n.parent; n.parent != nil; n = n.parent {
		if n.stat.mode&0o100 == 0 {
			return false
		}
	}
	return true
}

// keeper knows which files have what the tree has once the plan's are made: those whose content is the
// object, as many as own, and others that stay as they are.
func (p *plan) keeper(o *object) tree.Keeper {
	return func(path string) (bool, error) {
		rel, inside := p.w.where(path)
		if !inside {
			return false, nil
		}
		if it, is := p.items[rel]; is {
			return it != nil && it.object == o, nil
		}
		if len(p.order) > len(p.items) {
			return false, nil // of which not all are known
		}
		return p.w.keeps(rel), nil
	}
}

// share finds objects that become files although other files have the same content, since those keep it
// themselves. Of others, files are copied.
func (p *plan) share(e *tree.Edit, list []*object) error {
	own := map[*object]int{}
	for _, it := range p.items {
		if it != nil && it.object != nil {
			own[it.object]++
		}
	}
	for _, o := range list {
		if own[o] == o.files {
			var err error
			if o.shared, err = e.Kept(o.parts, p.keeper(o)); err != nil {
				return err
			}
		}
		if !o.shared {
			o.files = 0
		}
	}
	return nil
}
