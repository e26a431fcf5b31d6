package disk

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/tree"
)

// found is what is at a path that is about to become something else.
type found struct {
	there bool
	stat  stat
	known bool // a file whose content the store has, if it is still the one of stat
}

// overtake looks at what is about to be replaced. A file that the index does not know as
// it is was written since the last settle: that version is kept as chunks.
func (b *bringer) overtake(dir int, name, path string) (found, error) {
	st, err := statAt(dir, name)
	if gone(err) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	f := found{there: true, stat: st}
	if st.kind != tree.KindFile {
		return f, nil
	}
	if n := b.w.index.find(path); n != nil {
		index := n.stat
		index.dev = st.dev
		f.known = index.same(&st) && index.flags&again == 0
	}
	if f.known {
		return f, nil
	}
	return f, b.save(dir, name, path)
}

// save keeps the content of a file that nobody has settled and that is about to go. The end
// of the call does not stop it: the file may have a temporary name already.
func (b *bringer) save(dir int, name, path string) error {
	keep := &keeper{ctx: context.WithoutCancel(b.ctx), forest: b.w.cfg.Forest}
	got, err := b.w.readFile(dir, name, nil, keep)
	if err == nil {
		err = keep.flush()
	}
	switch {
	case gone(err) || errors.Is(err, errSpecial):
		return nil
	case denied(err):
		b.w.skipped(err, path)
		return nil
	case err != nil:
		return err
	}
	b.w.stats.overtaken.Add(1)
	b.w.log.Info("a file was changed while an entry for it arrived; that version is kept in the store only",
		"path", path, "size", got.size, "manifest", tree.ManifestOf(got.parts).String())
	return nil
}

var errNoExchange = errors.New("the file system cannot exchange names")

// place renames what is whole to where it belongs. was is what was there when overtake
// looked, nothing where it has not. What is there now comes out under the other name:
// should it be another version, that is kept as well. place removes what is ours when it
// fails.
func (b *bringer) place(dir int, temp, name, path string, was found) error {
	ours, err := statAt(dir, temp)
	if err != nil {
		cleanTemp(dir, temp)
		return err
	}
	if err = b.w.fault("place", path); err == nil {
		err = b.swap(dir, temp, name, path, was)
	}
	if err != nil {
		b.leave(dir, temp, path, &ours)
	}
	return err
}

// swap is place without what an error makes necessary.
func (b *bringer) swap(dir int, temp, name, path string, was found) error {
	for {
		if !was.there {
			err := renameNew(dir, temp, name)
			if errors.Is(err, unix.EEXIST) { // it came just now
				if was, err = b.overtake(dir, name, path); err != nil {
					return err
				}
				continue
			}
			if errors.Is(err, errNoExchange) {
				err = b.replace(dir, temp, name, path, was)
			}
			return pathError("rename", path, err)
		}
		err := exchange(dir, temp, name)
		if gone(err) { // it went just now
			was = found{}
			continue
		}
		if errors.Is(err, errNoExchange) {
			err = b.replace(dir, temp, name, path, was)
			return pathError("rename", path, err)
		}
		if err != nil {
			return pathError("rename", path, err)
		}
		if err = b.discard(dir, temp, path, was); err != nil {
			putBack(dir, temp, name)
		}
		return err
	}
}

// putBack undoes an exchange, whatever commands have put under the name since. A version
// that cannot be put back keeps the temporary name.
func putBack(dir int, temp, name string) {
	for range putBackAttempts {
		err := exchange(dir, temp, name)
		if gone(err) { // nothing has the name
			err = renameNew(dir, temp, name)
		}
		if !errors.Is(err, unix.EEXIST) {
			return
		}
	}
}

// leave removes the file or link that is ours from a temporary name. Anything else there
// is the only copy of a command's, and gets a name that is settled.
func (b *bringer) leave(dir int, temp, path string, ours *stat) {
	st, err := statAt(dir, temp)
	if gone(err) {
		return
	}
	if err == nil && st.sameFile(ours) && st.mtime == ours.mtime {
		cleanTemp(dir, temp)
		return
	}
	kept := keptPrefix + strings.TrimPrefix(temp, tempPrefix)
	if err = renameNew(dir, temp, kept); err != nil {
		kept = temp
	}
	b.w.log.Warn("a version that a command wrote could not be stored; it has another name now", "path", path, "name", kept, "err", err)
}

// replace is place where names cannot be exchanged: what comes to the place between the
// look at it and the renaming is lost.
func (b *bringer) replace(dir int, temp, name, path string, was found) error {
	if was.stat.kind == 0 { // nobody has seen what is there
		if _, err := b.overtake(dir, name, path); err != nil {
			return err
		}
	}
	rename := func() error {
		return retry(func() error { return unix.Renameat(dir, temp, dir, name) })
	}
	err := rename()
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if err = b.clear(dir, path, name); err == nil {
			err = rename()
		}
	}
	return err
}

// discard removes what was replaced, which has the temporary name now.
func (b *bringer) discard(dir int, temp, path string, was found) error {
	st, err := statAt(dir, temp)
	if err != nil {
		return err
	}
	if st.kind == tree.KindDir {
		return b.clear(dir, path, temp)
	}
	// Renaming changes the ctime, and nothing else.
	same := st.ino == was.stat.ino && st.size == was.stat.size && st.mtime == was.stat.mtime && st.mode == was.stat.mode
	if st.kind == tree.KindFile && !same {
		if err := b.save(dir, temp, path); err != nil {
			return err
		}
	}
	return pathError("remove", path, retry(func() error { return unix.Unlinkat(dir, temp, 0) }))
}
