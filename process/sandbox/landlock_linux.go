package sandbox

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock, by what they are for.
const (
	landReadFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	landRead     = landReadFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landDevice   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	landChange   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE

	// Versions of Landlock's interface and what they brought.
	landABITruncate = 3
	landABINetwork  = 4
	landABIDevices  = 5
	landABIScopes   = 6
)

// landlockABI returns the version of Landlock's interface, 0 without Landlock.
func landlockABI() int {
	v, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// landlockRules is a set of Landlock rules in the making.
type landlockRules struct {
	abi  int
	attr unix.LandlockRulesetAttr
	fd   int
}

// newLandlock begins a set. Scopes keep signals and abstract sockets inside; without
// network TCP is refused. With fs it restricts the file system to what allow adds.
func newLandlock(abi int, fs, network bool) (*landlockRules, error) {
	l := &landlockRules{abi: abi, fd: -1}
	if fs {
		l.attr.Handled_access_fs = landRead | landChange
		if abi >= landABIDevices {
			l.attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		}
	}
	if abi >= landABINetwork && !network {
		l.attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= landABIScopes {
		l.attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	if l.attr == (unix.LandlockRulesetAttr{}) {
		return l, nil
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&l.attr)), l.attrSize(), 0)
	if errno != 0 {
		return nil, step(errno, "make a Landlock rule set")
	}
	l.fd = int(fd)
	return l, nil
}

// attrSize is how much of the attributes a kernel of this version knows.
func (l *landlockRules) attrSize() uintptr {
	switch {
	case l.abi >= landABIScopes:
		return 24
	case l.abi >= landABINetwork:
		return 16
	}
	return 8
}

// allow gives the rights to the file open at fd, or to the tree of a directory.
func (l *landlockRules) allow(fd int, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights & l.attr.Handled_access_fs, Parent_fd: int32(fd)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(l.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// apply puts the calling thread under the rules, if there are any.
func (l *landlockRules) apply() error {
	if l.fd < 0 {
		return nil
	}
	_, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(l.fd), 0, 0)
	if errno != 0 {
		return step(errno, "apply the Landlock rules")
	}
	return step(unix.Close(l.fd), "close the Landlock rules")
}

// landlockRead restricts the calling thread to reading the places of the plan, and
// with a base that is readable to reading everything. Devices without effect can be
// written. self is this binary, which may have to be executed again.
func landlockRead(p *plan, self int) error {
	abi := landlockABI()
	if abi < landABITruncate {
		return step(unix.ENOSYS, "restrict the file system with Landlock version %d", abi)
	}
	l, err := newLandlock(abi, true, p.Network)
	if err != nil {
		return err
	}
	paths := []string{"/proc"}
	if p.Base == Read {
		paths = []string{"/"}
	}
	for _, at := range p.Places {
		paths = append(paths, string(at.Path))
	}
	except := make([]string, len(p.Except))
	for i, at := range p.Except {
		except[i] = string(at)
	}
	left := maxAroundRules
	for _, at := range paths {
		if err := l.allowAround(at, except, landRead, &left); err != nil {
			return step(err, "allow reading %s", at)
		}
	}
	for _, name := range deviceNames {
		err := l.allowPath("/dev/"+name, landDevice|landRead&^unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return step(err, "allow /dev/%s", name)
		}
	}
	if self >= 0 {
		if err := l.allow(self, landReadFile); err != nil {
			return step(err, "allow this program")
		}
	}
	return l.apply()
}

func (l *landlockRules) allowPath(at string, rights uint64) error {
	fd, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // a path descriptor
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= landReadFile | landDevice | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return l.allow(fd, rights)
}
