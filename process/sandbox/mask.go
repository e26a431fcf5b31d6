package sandbox

import (
	"errors"
	"io"
	"os"
)

// isMask reports whether info is that of a mask: an empty directory that stands, for
// as long as a sandbox needs it, where something must not be made. The sticky bit, of
// no use on a directory nobody can write, tells masks from directories of others. It
// may be one that a server which was killed has left. A command can give this mode to
// its own directories, so that one counts only while it is empty.
func isMask(info os.FileInfo) bool {
	return info.Mode()&^0o555 == os.ModeDir|os.ModeSticky && ownedByMe(info)
}

// isEmpty reports whether the directory at has nothing in it.
func isEmpty(at string) bool {
	f, err := os.Open(at)
	if err != nil {
		return errors.Is(err, os.ErrNotExist) // a mask that has just gone
	}
	defer f.Close() //nolint:errcheck // only read
	return hasNothing(f)
}

func hasNothing(dir *os.File) bool {
	_, err := dir.Readdirnames(1)
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrNotExist)
}
