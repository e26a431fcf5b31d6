package atomicfile

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// dress gives fd the owner, extended attributes and mode that replacing old calls
// for; st is old's, and old is -1 when it cannot be opened. It fails only when
// the owner or mode cannot be given: extended attributes are kept where the system
// lets them.
func dress(fd, old int, st *unix.Stat_t, mode uint32) error {
	var mine unix.Stat_t
	if err := fstat(fd, &mine); err != nil {
		return err
	}
	if mine.Uid != st.Uid || mine.Gid != st.Gid {
		if err := unix.Fchown(fd, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if old >= 0 {
		copyAttributes(fd, old)
	}
	if unix.Geteuid() != 0 {
		mode &^= unix.S_ISUID | unix.S_ISGID // as a write by others than root drops them
	}
	if uint32(mine.Mode&0o7777) != mode || mine.Uid != st.Uid || mine.Gid != st.Gid {
		return unix.Fchmod(fd, mode)
	}
	return nil
}

// copyAttributes copies what extended attributes it can.
func copyAttributes(to, from int) {
	var list [1024]byte
	n, err := unix.Flistxattr(from, list[:])
	if err != nil || n <= 0 {
		return
	}
	value := make([]byte, 64<<10)
	for name := range bytes.SplitSeq(bytes.TrimRight(list[:n], "\x00"), []byte{0}) {
		size, err := unix.Fgetxattr(from, string(name), value)
		if err == nil {
			_ = unix.Fsetxattr(to, string(name), value[:size], 0)
		}
	}
}
