package mirror

import (
	"hash/maphash"

	"github.com/wsd-dev/wsd/fs/tree"
)

// theirs is what a remote had when both sides were strangers. It keeps hashes: by chance, a path may
// count as one that the remote had.
type theirs struct {
	seed     maphash.Seed
	times    bool                // times count
	paths    map[uint64]struct{} // of this side
	versions map[uint64]struct{} // with their paths
}

func newTheirs(times bool) *theirs {
	return &theirs{maphash.MakeSeed(), times, map[uint64]struct{}{}, map[uint64]struct{}{}}
}

// add takes note of entries of the remote's, by their paths here. A nil theirs takes none.
func (t *theirs) add(entries []tree.Entry) {
	if t == nil {
		return
	}
	for i := range entries {
		if e := &entries[i]; e.Kind != tree.KindDelete {
			t.paths[maphash.String(t.seed, e.Path)] = struct{}{}
			t.versions[t.version(e.Path, e)] = struct{}{}
		}
	}
}

// has reports whether the remote had at a path what an entry says. A nil theirs has nothing.
func (t *theirs) has(path string, e *tree.Entry) bool {
	if t == nil {
		return false
	}
	if e.Kind == tree.KindDelete {
		_, had := t.paths[maphash.String(t.seed, path)]
		return !had
	}
	_, had := t.versions[t.version(path, e)]
	return had
}

func (t *theirs) version(path string, e *tree.Entry) uint64 {
	text := path + "\x00" + printOf(e)
	if t.times && e.Kind == tree.KindFile {
		text += e.MTime.UTC().String()
	}
	return maphash.String(t.seed, text)
}
