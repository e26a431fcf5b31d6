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
	landABIRefer    = 2
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
// network TCP is refused. Rights in fs are restricted to what allow adds. Whatever the
// set restricts, processes outside cannot be traced, nor their memory be opened.
func newLandlock(abi int, fs uint64, network bool) (*landlockRules, error) {
	l := &landlockRules{abi: abi, fd: -1}
	l.attr.Handled_access_fs = fs
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
	rights := uint64(landRead | landChange)
	if abi >= landABIDevices {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	l, err := newLandlock(abi, rights, p.Network)
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

// landlockWrite restricts the calling thread, whose view of the disk is that of the
// plan, to opening for writing what is in a writable place: read-only mounts do not
// stop who writes to a FIFO or a device. Files are not concerned, since the mounts
// refuse first.
func landlockWrite(p *plan) error {
	abi := landlockABI()
	if abi < landABIRefer { // a set of rules for files would forbid renames between directories
		l, err := newLandlock(abi, 0, p.Network)
		if err != nil {
			return err
		}
		return l.apply()
	}
	l, err := newLandlock(abi, unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_REFER, p.Network)
	if err != nil {
		return err
	}
	rights := uint64(unix.LANDLOCK_ACCESS_FS_REFER)
	if p.Base == Write {
		rights |= unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	}
	if err := l.allowPath("/", rights); err != nil {
		return step(err, "allow renames")
	}
	for _, at := range p.Places {
		if at.Access != Write {
			continue
		}
		if err := l.allowWriting(string(at.Path)); err != nil {
			return err
		}
	}
	for _, name := range append([]string{"pts", "shm"}, deviceNames...) {
		if err := l.allowWriting("/dev/" + name); err != nil {
			return err
		}
	}
	for fd := range 3 {
		if err := l.allowTerminal(fd); err != nil {
			return err
		}
	}
	return l.apply()
}

// allowWriting lets files in a place be opened for writing. A place that the thread
// cannot get to, which has no capabilities any more, needs no rule.
func (l *landlockRules) allowWriting(at string) error {
	err := l.allowPath(at, unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil
	}
	return step(err, "allow writing in %s", at)
}

// allowTerminal lets a terminal at fd, which was opened outside, be opened once more by
// a name such as /dev/stdout. Pipes can be without a rule.
func (l *landlockRules) allowTerminal(fd int) error {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return nil
	}
	return step(l.allow(fd, unix.LANDLOCK_ACCESS_FS_WRITE_FILE), "allow descriptor %d", fd)
}

// landlockProcesses keeps the calling thread from the memory and the files of the
// processes outside, and from signalling them where Landlock knows scopes. It restricts
// no files.
func landlockProcesses(p *plan) error {
	abi := landlockABI()
	if abi < landABIRefer {
		return step(unix.ENOSYS, "keep off other processes, which have a network, with Landlock version %d", abi)
	}
	if abi >= landABINetwork {
		l, err := newLandlock(abi, 0, p.Network)
		if err != nil {
			return err
		}
		return l.apply()
	}
	const any = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_REFER // a set cannot be empty
	l, err := newLandlock(abi, any, p.Network)
	if err != nil {
		return err
	}
	if err := l.allowPath("/", any); err != nil {
		return step(err, "allow all files")
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
