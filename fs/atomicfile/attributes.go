package atomicfile

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// dress gives fd the owner, extended attributes and mode that replacing old calls
// for; st is old's, and old is -1 when it cannot be opened. It fails only when
// the owner or mode cannot be given: extended attributes are kept where the system
// lets them.
func dress(fd, old int, st *unix.Stat_t, mode uint32) error {
	mine, err := dirfd.Stat(fd)
	if err != nil {
		return err
	}
	if err := Adopt(fd, old, st); err != nil {
		return err
	}
	if unix.Geteuid() != 0 {
		mode &^= unix.S_ISUID | unix.S_ISGID // as a write by others than root drops them
	}
	if uint32(mine.Mode&0o7777) != mode || mine.Uid != st.Uid || mine.Gid != st.Gid {
		return unix.Fchmod(fd, mode)
	}
	return nil
}

// Adopt gives an open file that is about to replace another one that file's owner, group and
// extended attributes, access control lists included. st is the other file's, and old an
// open descriptor of it, or -1. The content of fd must be complete, and its mode is to be set
// afterwards: a new owner takes set-ID bits away, and an access control list changes the mode.
//
// If the owner or group cannot be given, Adopt does the rest and says so. Extended attributes
// are kept where the system lets them.
func Adopt(fd, old int, st *unix.Stat_t) error {
	mine, err := dirfd.Stat(fd)
	if err == nil && (mine.Uid != st.Uid || mine.Gid != st.Gid) {
		err = unix.Fchown(fd, int(st.Uid), int(st.Gid))
		if err != nil && mine.Uid != st.Uid && mine.Gid != st.Gid {
			_ = unix.Fchown(fd, -1, int(st.Gid)) // at least that
		}
	}
	if old >= 0 {
		copyAttributes(fd, old)
	}
	return err
}

// ofContent are attributes that stand for the content that they were given to. The kernel
// takes the first away when a file is written.
var ofContent = map[string]bool{"security.capability": true, "security.ima": true, "security.evm": true}

// copyAttributes copies what extended attributes it can.
func copyAttributes(to, from int) {
	list := make([]byte, 1024)
	n, err := unix.Flistxattr(from, list)
	if errors.Is(err, unix.ERANGE) {
		list = make([]byte, 64<<10) // what Linux has at most
		n, err = unix.Flistxattr(from, list)
	}
	if err != nil || n <= 0 {
		return
	}
	var value []byte
	for name := range bytes.SplitSeq(bytes.TrimRight(list[:n], "\x00"), []byte{0}) {
		if ofContent[string(name)] {
			continue
		}
		if value == nil {
			value = make([]byte, 64<<10)
		}
		size, err := unix.Fgetxattr(from, string(name), value)
		if err == nil {
			_ = unix.Fsetxattr(to, string(name), value[:size], 0)
		}
	}
}
