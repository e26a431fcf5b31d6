package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/wsd-dev/wsd/fs/tree"
)

// printOf identifies what an entry says of its path: kind, mode, content or target, not
// its time. It is as long as it takes for no two to be alike by chance.
func printOf(e *tree.Entry) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %o ", e.Kind, modeOf(e))
	switch e.Kind {
	case tree.KindFile:
		m := tree.ManifestOf(e.Parts)
		h.Write(m[:])
	case tree.KindSymlink:
		h.Write([]byte(e.Target))
	case tree.KindDir, tree.KindDelete:
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// modeOf is the mode that counts.
func modeOf(e *tree.Entry) uint32 {
	if e.Kind == tree.KindFile || e.Kind == tree.KindDir {
		return e.Mode & tree.ModeMask
	}
	return 0
}

// same reports whether two entries say the same of their paths; nil is nothing there, as
// a delete is.
func same(a, b *tree.Entry) bool {
	gone := func(e *tree.Entry) bool { return e == nil || e.Kind == tree.KindDelete }
	if gone(a) || gone(b) {
		return gone(a) == gone(b)
	}
	return printOf(a) == printOf(b)
}
