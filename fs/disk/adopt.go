package disk

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/tree"
)

// adopt gives a new file what the one under a name has that a tree knows nothing of: owner,
// group, access control list and extended attributes.
func (b *bringer) adopt(fd, dir int, name string, it *item) error {
	var st unix.Stat_t
	old, err := openFileAt(dir, name)
	switch {
	case err == nil:
		defer closeFD(old)
		st, err = dirfd.Stat(old)
	case forbidden(err):
		old = -1
		err = onName(name, func(raw string) error { return unix.Fstatat(dir, raw, &st, unix.AT_SYMLINK_NOFOLLOW) })
	}
	if gone(err) || err == nil && kindOf(uint32(st.Mode)) != tree.KindFile { //nolint:unconvert,nolintlint // of another type on some systems
		return nil
	}
	if err != nil {
		return pathError("look at the owner of", it.path, err)
	}
	if err := atomicfile.Adopt(fd, old, &st); err != nil {
		b.disown(it.path, &st, err)
	}
	return nil
}

// disown notes that a file is no longer its owner's, or group's.
func (b *bringer) disown(path string, st *unix.Stat_t, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.disowned == nil {
		b.disowned = map[string]struct{}{}
	}
	if b.disowned[path] = struct{}{}; len(b.disowned) == 1 {
		b.w.log.Warn("a file was replaced whose owner or group may not be kept", "path", path, "uid", st.Uid, "gid", st.Gid, "err", err)
	}
}

// report adds to the result of a call what an entry did beside what it says.
func (b *bringer) report(done *changes.Applied) {
	done.Overtaken = append(done.Overtaken, b.overtaken...)
	done.Kept = append(done.Kept, b.kept...)
	for _, path := range slices.Sorted(maps.Keys(b.disowned)) {
		if !b.stuck.has(path) { // else it is what it was
			done.Disowned = append(done.Disowned, b.w.treePath(path))
		}
	}
}
