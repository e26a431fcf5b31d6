//go:build !linux

package disk

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/tree"
)

const utimeOmit = -2 // UTIME_OMIT, which the package lacks for some systems

// statAt looks at a name in a directory, at a link itself.
func statAt(dir int, name string) (stat, error) {
	called("stat", name)
	var s unix.Stat_t
	if err := onName(name, func(raw string) error { return unix.Fstatat(dir, raw, &s, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return stat{}, pathError("stat", name, err)
	}
	return fromStat(&s), nil
}

// statFD looks at what is open.
func statFD(fd int) (stat, error) {
	called("stat", "")
	s, err := dirfd.Stat(fd)
	if err != nil {
		return stat{}, pathError("stat", ".", err)
	}
	return fromStat(&s), nil
}

// Where the time of birth is not known, what was renamed is read again.
func fromStat(s *unix.Stat_t) stat {
	st := stat{
		dev: uint64(s.Dev), ino: s.Ino, size: s.Size,
		mtime: tree.Nanos(time.Unix(s.Mtim.Unix())), ctime: tree.Nanos(time.Unix(s.Ctim.Unix())),
		mode: uint16(uint32(s.Mode) & tree.ModeMask), kind: kindOf(uint32(s.Mode)),
	}
	if s.Nlink > 1 && st.kind == tree.KindFile {
		st.flags = linked
	}
	return st
}

// syncAll asks for all that was written to be brought to the disk.
func syncAll(int) error { return unix.Sync() }

// chmodAt changes the mode of a file or directory that cannot be opened.
func chmodAt(dir int, name string, mode uint32) error {
	return pathError("chmod", name, chmodFileAt(dir, name, mode))
}

// trusted refuses: the systems of which this is for do not tell at once.
func trusted(int) error {
	return errors.New("this system does not tell of changes at once")
}

func reflink(int, int) error { return unix.ENOTSUP }

func renameNew(int, string, string) error { return errNoExchange }

func exchange(int, string, string) error { return errNoExchange }

// beingWritten does not know.
func beingWritten(int, string) bool { return false }

func openAsking(int, string) (int, bool) { return -1, false }

func openForWriting(int) bool { return false }

// setTimesFD sets the mtime of what is open, to the microsecond.
func setTimesFD(fd int, mtime int64) error {
	now := unix.NsecToTimeval(time.Now().UnixNano())
	return pathError("set times", "", dirfd.Retry(func() error { return unix.Futimes(fd, []unix.Timeval{now, unix.NsecToTimeval(mtime)}) }))
}

// hasDefaultACL reports whether what is made in an open directory gets an access control list.
func hasDefaultACL(int) bool { return false }

// sameMount reports whether two directories are on the same file system.
func sameMount(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}
