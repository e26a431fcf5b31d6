package disk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// What is brought to the directory is written under a name of its own beside the place
// where it belongs, and renamed when it is whole. Such names are never settled, and those
// that a crash has left are removed by Open.
const (
	tempPrefix = ".wsd-tmp-"
	tempLength = len(tempPrefix) + 16
	// keptPrefix begins the name of a command's version that could neither be stored nor
	// stay where it was. It is settled like any other name.
	keptPrefix = "wsd-kept-"
)

// temporary reports whether a name is one of ours.
func temporary(name string) bool {
	if len(name) != tempLength || !strings.HasPrefix(name, tempPrefix) {
		return false
	}
	for _, c := range name[len(tempPrefix):] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// hidden reports whether a path is, or is below, a name of ours: a tree may have it, the
// directory does not.
func hidden(path string) bool {
	if !strings.Contains(path, tempPrefix) {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if temporary(name) {
			return true
		}
	}
	return false
}

// tempNames gives names that nothing has.
type tempNames struct {
	prefix string
	count  atomic.Uint32
}

func newTempNames() *tempNames {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return &tempNames{prefix: tempPrefix + hex.EncodeToString(b[:])}
}

func (t *tempNames) next() string {
	n := t.count.Add(1)
	return t.prefix + hex.EncodeToString([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// cleanTemp removes what was written under a name of ours.
func cleanTemp(fd int, name string) {
	_ = unix.Unlinkat(fd, name, 0) // what cannot be removed now is removed by Open
}

// cleanAll removes what a crash has left under names of ours, which may be directories
// that were just replaced.
func (w *Workspace) cleanAll(ctx context.Context, root int, paths []string) error {
	b := &bringer{w: w, ctx: ctx, root: root, walk: newWalker(root)}
	defer b.walk.forget()
	for _, path := range paths {
		dir, name := split(path)
		fd, err := b.walk.open(dir)
		if err == nil {
			err = b.clear(fd, path, name)
		}
		if err != nil && !gone(err) && !denied(err) {
			return err
		}
	}
	return nil
}
