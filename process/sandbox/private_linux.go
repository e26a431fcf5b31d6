package sandbox

import (
	"errors"
	iofs "io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// maxAroundRules bounds the Landlock rules that one exception takes: one for each
// entry of the directories above it.
const maxAroundRules = 16 << 10

// isSocket reports whether a socket is at a path.
func isSocket(at string) bool {
	info, err := os.Lstat(at)
	return err == nil && info.Mode().Type() == iofs.ModeSocket
}

// allowAround gives the rights to the tree at a path, but for what is at the paths of
// except. Landlock only adds rights, from a directory downwards, so each entry beside
// an excepted path gets a rule of its own; an entry that is made later has none. Names
// can be listed everywhere. left is how many rules it may still add.
func (l *landlockRules) allowAround(at string, except []string, rights uint64, left *int) error {
	if slices.Contains(except, at) {
		return nil
	}
	if *left--; *left < 0 {
		return step(unix.E2BIG, "restrict the directories around %s", except)
	}
	if !slices.ContainsFunc(except, func(e string) bool { return slashpath.Within(e, at) }) {
		return l.allowPath(at, rights)
	}
	if err := l.allowPath(at, rights&unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	entries, err := os.ReadDir(at)
	if err != nil && !errors.Is(err, iofs.ErrPermission) {
		return err
	}
	for _, e := range entries {
		if e.Type() == iofs.ModeSymlink {
			continue // the right is that of what it leads to
		}
		err := l.allowAround(slashpath.Join(at, e.Name()), except, rights, left)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return nil
}
