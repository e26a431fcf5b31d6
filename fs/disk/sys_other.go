//go:build !linux

package disk

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/tree"
)

const utimeOmit = -2 // UTIME_OMIT, which the package lacks for some systems

// statAt looks at a name in a directory, at a link itself.
func statAt(dir int, name string) (stat, error) {
	var s unix.Stat_t
	if err := retry(func() error { return unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return stat{}, pathError("stat", name, err)
	}
	return fromStat(&s), nil
}

// statFD looks at what is open.
func statFD(fd int) (stat, error) {
	var s unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &s) }); err != nil {
		return stat{}, pathError("stat", ".", err)
	}
	return fromStat(&s), nil
}

// Where the time of birth is not known, what was renamed is read again.
func fromStat(s *unix.Stat_t) stat {
	st := stat{
		dev: uint64(s.Dev), ino: s.Ino, size: s.Size,
		mtime: unix.TimespecToNsec(s.Mtim), ctime: unix.TimespecToNsec(s.Ctim),
		mode: uint16(uint32(s.Mode) & tree.ModeMask), kind: kindOf(uint32(s.Mode)),
	}
	if s.Nlink > 1 && st.kind == tree.KindFile {
		st.flags = linked
	}
	return st
}

// syncAll asks for all that was written to be brought to the disk.
func syncAll(int) error { return unix.Sync() }

// chmodAt changes the mode of a name in a directory that cannot be opened.
func chmodAt(dir int, name string, mode uint32) error {
	return pathError("chmod", name, unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW))
}

// trusted refuses: the systems of which this is for do not tell at once.
func trusted(int) error {
	return errors.New("this system does not tell of changes at once")
}

func renameNew(int, string, string) error { return errNoExchange }

func exchange(int, string, string) error { return errNoExchange }

// beingWritten does not know.
func beingWritten(int, string) bool { return false }

func openForWriting(int) bool { return false }
