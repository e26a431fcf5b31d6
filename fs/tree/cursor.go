package tree

import "cmp"

// A Cursor is a place in a tree's change stream. The zero value is its beginning.
type Cursor struct {
	Rev int64
	// Within says that Path counts: of revision Rev, everything up to and including Path
	// has been offered. Otherwise all of Rev has been (on the wire, path is null). An
	// empty Path is a path like another.
	Within bool
	Path   string
}

// At is the cursor behind everything of a revision.
func At(rev int64) Cursor { return Cursor{Rev: rev} }

// AtPath is the cursor behind one path of a revision.
func AtPath(rev int64, path string) Cursor { return Cursor{Rev: rev, Within: true, Path: path} }

// Compare is negative when a comes before b, positive when it comes after: by revision,
// then by path in the order of ComparePaths. The end of a revision comes after all its
// paths.
func (c Cursor) Compare(d Cursor) int {
	if r := cmp.Compare(c.Rev, d.Rev); r != 0 {
		return r
	}
	switch {
	case c.Within && d.Within:
		return ComparePaths(c.Path, d.Path)
	case c.Within:
		return -1
	case d.Within:
		return 1
	}
	return 0
}

// ComparePaths orders strings by their UTF-16 code units, as the peers' language does.
// It differs from Go's order, which is that of UTF-8, for characters above U+FFFF beside
// those from U+E000 to U+FFFF.
func ComparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		// They differ in the first byte of a character, or in a later one of two
		// characters that begin alike: then both are of the same length, and the orders
		// agree. A first byte from 0xf0 on stands for a surrogate pair (U+D800 and up),
		// 0xee and 0xef for U+E000 to U+FFFF.
		switch {
		case x >= 0xf0 && (y == 0xee || y == 0xef):
			return -1
		case y >= 0xf0 && (x == 0xee || x == 0xef):
			return 1
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a), len(b))
}
