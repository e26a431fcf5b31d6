package changes

import (
	"cmp"
	"errors"
	iofs "io/fs"
	"iter"
	"slices"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A replay keeps deletes that come a second time from removing what has been made since.
//
// A peer that did not get the answer to a push sends it again. Its delete of a path has
// then been applied, and what is there now is newer: a command has made it in between,
// and the peer has yet to hear of it. So a delete that the stored cursor covers is applied
// only if it says what it removes (prior, the fingerprint of a version) and that is what
// is there; a directory, whose fingerprint says little, also has to be empty once the
// deletes of what was in it are done. A delete without prior is always applied, as peers of
// the first kind expect. So is any beyond the stored cursor: the last writer wins.
//
// A push with a base says what its sender has seen, so that unseen does all this. The
// stored cursor is that of all clients of a server: for one whose revisions are lower than
// another's it covers every delete.
//
// A peer that has lost its store and counts from the beginning is not hindered in
// removing what it has seen: that has the fingerprint.
type replay struct {
	edit *tree.Edit
	seen tree.Cursor // stored before the push
	dirs []tree.Entry
}

// maxReplayed bounds the directories whose deletes wait for the end; those beyond stay.
const maxReplayed = 10_000

// entries leaves out, and puts at the end, what must be.
func (r *replay) entries(in iter.Seq2[tree.Entry, error]) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		for e, err := range in {
			if err == nil && e.Kind == tree.KindDelete && e.Prior != "" && After(&e).Compare(r.seen) <= 0 {
				var apply bool
				if apply, err = r.again(&e); err == nil && !apply {
					continue
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		// What is below a directory before itself.
		slices.SortFunc(r.dirs, func(a, b tree.Entry) int { return cmp.Compare(b.Path, a.Path) })
		for _, e := range r.dirs {
			empty, err := r.empty(&e)
			if err == nil && !empty {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// again reports whether a replayed delete is applied at once.
func (r *replay) again(e *tree.Entry) (bool, error) {
	got, err := r.edit.Entry(e.Path)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil || got.Kind == tree.KindDelete || tree.Fingerprint(&got) != e.Prior {
		return false, err
	}
	if got.Kind != tree.KindDir {
		return true, nil
	}
	if len(r.dirs) < maxReplayed {
		r.dirs = append(r.dirs, *e)
	}
	return false, nil
}

// empty reports whether a path is a directory without anything in it.
func (r *replay) empty(e *tree.Entry) (bool, error) {
	got, err := r.edit.Entry(e.Path)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil // something else of the push has taken its place, or one above it
	}
	if err != nil || got.Kind != tree.KindDir {
		return false, err
	}
	info, err := r.edit.Lstat(e.Path)
	if err != nil {
		return false, err
	}
	list, err := r.edit.Tx().Children(info.Ino, "", 1)
	return len(list) == 0, err
}
