package disk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An entry is written under a temporary name beside the place where it belongs, and renamed
// when it is whole. What it takes the place of leaves under a name that says so. Such names
// are never settled; Open removes those that a crash has left, and keeps the versions that
// were on their way out.
const (
	tempPrefix = ".wsd-tmp-"
	outPrefix  = ".wsd-out-" // then 16 digits, a hyphen or newsMark, and the name that it had
	newsMark   = "+"         // nobody has settled the version
	tempLength = len(tempPrefix) + 16
	// keptPrefix begins the name of a command's version that could neither be stored nor
	// stay where it was. It is settled like any other name.
	keptPrefix = "wsd-kept-"
)

// temporary reports whether a name is one of ours.
func temporary(name string) bool {
	switch {
	case len(name) == tempLength && strings.HasPrefix(name, tempPrefix):
	case isOut(name):
	default:
		return false
	}
	for _, c := range randomOf(name) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isOut reports whether a temporary name is that of a version on its way out.
func isOut(name string) bool {
	return len(name) > tempLength+1 && strings.HasPrefix(name, outPrefix) && (name[tempLength] == '-' || isNews(name))
}

// newsName is the name of a version on its way out that says that nobody has settled it.
func newsName(out string) string { return out[:tempLength] + newsMark + out[tempLength+1:] }

// isNews reports whether the name of a version on its way out says that nobody has settled it.
func isNews(name string) bool {
	return len(name) > tempLength+1 && strings.HasPrefix(name, outPrefix) && name[tempLength:tempLength+1] == newsMark
}

// randomOf is the digits of a temporary name.
func randomOf(name string) string { return name[len(tempPrefix):tempLength] }

// hidden reports whether a path is, or is below, a name of ours: a tree may have it, the
// directory does not.
func hidden(path string) bool {
	if !strings.Contains(path, tempPrefix) && !strings.Contains(path, outPrefix) {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if temporary(name) {
			return true
		}
	}
	return false
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// tempName returns a name that nothing has, for something that is written.
func tempName() string { return tempPrefix + randomHex(8) }

// outName returns the name under which a version leaves.
func outName(name string) string {
	mark := outPrefix + randomHex(8) + "-"
	return mark + tree.Shorten(name, len(mark))
}

// cleanTemp removes what was written under a name of ours.
func cleanTemp(fd int, name string) {
	_ = unlinkAt(fd, name) // what cannot be removed now is removed by Open
}

// cleanAll disposes of what a crash has left under names of ours, and reports whether that
// was all. What cannot be kept now, for want of room, is tried again by the next settle.
func (w *Workspace) cleanAll(ctx context.Context, root int, paths []string) bool {
	if !w.unclean {
		return true
	}
	b := newBringer(ctx, w, root, nil)
	b.recovers = true // what is left may have what the tree has nowhere else
	defer b.walk.forget()
	all := true
	for _, path := range paths {
		dir, name := slashpath.Split(path)
		if dir == "" && w.isPutOff(name) {
			continue
		}
		fd, err := b.walk.open(dir)
		if err == nil {
			err = b.reclaim(fd, dir, name)
		}
		if err != nil && !gone(err) && !denied(err) {
			all = false
			w.log.Warn("what a crash has left cannot be disposed of yet", "path", path, "err", err)
		}
	}
	if all {
		w.unclean, w.replaced = false, nil
	}
	return all
}

// reclaim disposes of what a crash has left under a name of ours: an entry that was being
// written is removed, a version that was on its way out is kept unless the store has it.
func (b *bringer) reclaim(dir int, path, name string) error {
	st, err := statAt(dir, name)
	switch {
	case err != nil:
		return err
	case isOut(name):
		base := name[tempLength+1:]
		switch st.kind {
		case tree.KindFile, tree.KindSymlink, tree.KindDir:
		default: // a pipe that came just before the removal, and was not put back
			if renameNew(dir, name, base) == nil {
				return nil
			}
		}
		it := &item{path: slashpath.Join(path, base), kind: tree.KindDelete}
		was, known := b.w.replaced[it.path]
		if n := b.w.index.find(it.path); !known && n != nil {
			was = n.stat
		}
		f := found{there: true, stat: st, racy: was.flags&unsure != 0, mode: &was.mode}
		f.known = f.same(&was) && !isNews(name)
		f.left = !f.known
		_, err := b.discard(dir, name, it, f)
		return err
	case st.kind == tree.KindDir: // an earlier version of wsd has left it
		return pathError("rename", name, renameNew(dir, name, keptPrefix+randomOf(name)))
	case st.kind == tree.KindFile:
		if gone, err := b.rescue(dir, name); gone || err != nil {
			return err
		}
	}
	return pathError("remove", name, unlinkAt(dir, name))
}
