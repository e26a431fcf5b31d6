package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
)

func ownedByMe(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

func hasOtherNames(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

// systemDirs hold links of the system's. As root the owner of a directory does not tell
// whether a command may have put something there.
var systemDirs = []string{"/", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/run", "/srv", "/usr", "/usr/lib", "/var"}

// isTrustedDir reports whether no command of this user can have made a link in a
// directory.
func isTrustedDir(at string) bool {
	info, err := os.Stat(at)
	if err != nil || info.Mode()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && (os.Geteuid() != 0 || slices.Contains(systemDirs, at))
}

// readMounts returns the mounts of the calling thread's namespace.
func readMounts() (mounts, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	return parseMounts(string(text)), err
}

// maskMode is the mode of a mask, as far as the umask lets it.
const maskMode = unix.S_ISVTX | 0o555

// A mask is held with a shared lock by every sandbox that needs it, of this server or
// another. Who gives it up and can have the exclusive lock was the last, and removes
// it. A killed server loses its locks; its masks are taken over when they are needed
// again.
//
// All is done relative to the descriptor of the parent, since a confined process may
// be moving directories about meanwhile.
type mask struct {
	name   string
	parent *os.File
	dir    *os.File
}

// hold makes a mask, or takes part in the one that is there. It returns nil when
// the directory cannot be made by this process, and so by no confined one either.
func hold(at string, borrowed *rights) (*mask, error) {
	up, err := dirfd.OpenNoLinks(unix.AT_FDCWD, slashpath.Dir(at), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, errMoved
	}
	m := &mask{name: path.Base(at), parent: os.NewFile(uintptr(up), slashpath.Dir(at))}
	held, err := m.take(up, borrowed)
	if err != nil || !held {
		m.close()
		return nil, err
	}
	return m, nil
}

// maxHoldTries bounds how often a mask may go just as it is taken part in. Each time
// another sandbox has ended meanwhile.
const maxHoldTries = 1024

func (m *mask) take(up int, borrowed *rights) (bool, error) {
	for range maxHoldTries {
		err := unix.Mkdirat(up, m.name, maskMode)
		for n := 0; n < maxOpenings && errors.Is(err, unix.EACCES) && borrowed.borrow(m.parent.Name()) == nil; n++ {
			err = unix.Mkdirat(up, m.name, maskMode)
		}
		switch {
		case err == nil, errors.Is(err, unix.EEXIST):
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
			return false, nil
		case errors.Is(err, unix.ENOENT):
			return false, errMoved
		default:
			return false, unavailablef("keep %s from being made in %s: %v", m.name, m.parent.Name(), err)
		}
		if held, err := m.lock(up); held || err != nil {
			return held, err
		}
	}
	return false, errMoved
}

// lock returns false when the mask has just gone.
func (m *mask) lock(up int) (bool, error) {
	fd, err := unix.Openat(up, m.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, errMoved // a file, a link, or a directory of somebody else
	}
	m.dir = os.NewFile(uintptr(fd), m.name)
	switch info, err := m.dir.Stat(); {
	case err != nil || !isMask(info):
		return false, errMoved
	case flock(fd, unix.LOCK_SH) != nil:
		return false, unavailablef("lock %s in %s", m.name, m.parent.Name())
	case !m.inPlace():
	case !hasNothing(m.dir):
		return false, errMoved
	default:
		return true, nil
	}
	_ = m.dir.Close()
	return false, nil
}

// inPlace reports whether the name still leads to the directory that is locked.
func (m *mask) inPlace() bool {
	var here, there unix.Stat_t
	return unix.Fstat(int(m.dir.Fd()), &here) == nil &&
		unix.Fstatat(int(m.parent.Fd()), m.name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		here.Dev == there.Dev && here.Ino == there.Ino
}

// release gives the mask up, and removes it if nobody else needs it.
func (m *mask) release() {
	defer m.close()
	if flock(int(m.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && m.inPlace() {
		// Fails if somebody has put something there.
		_ = unix.Unlinkat(int(m.parent.Fd()), m.name, unix.AT_REMOVEDIR)
	}
}

func (m *mask) close() {
	_ = m.parent.Close()
	if m.dir != nil {
		_ = m.dir.Close()
	}
}

func flock(fd, how int) error { return dirfd.Retry(func() error { return unix.Flock(fd, how) }) }

// holdMasks holds the masks of a layout, and leaves out of it those that are not
// needed.
func holdMasks(l *layout, borrowed *rights) ([]*mask, error) {
	var held []*mask
	places := l.Places[:0]
	for _, p := range l.Places {
		if p.Mask {
			m, err := hold(p.Path, borrowed)
			if err != nil {
				releaseMasks(held)
				return nil, err
			}
			if m == nil {
				continue
			}
			held = append(held, m)
		}
		places = append(places, p)
	}
	l.Places = places
	return held, nil
}

func releaseMasks(masks []*mask) {
	for _, m := range masks {
		m.release()
	}
}

// abandonMasks leaves masks where they are, as a killed server does: their sandbox lives on.
func abandonMasks(masks []*mask) {
	for _, m := range masks {
		m.close()
	}
}

// settle lays a policy out and holds its masks.
func settle(p *Policy) (*layout, []*mask, error) {
	for range 4 {
		l, masks, err := trySettle(p)
		if !errors.Is(err, errMoved) {
			return l, masks, err
		}
	}
	return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, errMoved)
}

func trySettle(p *Policy) (*layout, []*mask, error) {
	var borrowed rights
	defer borrowed.giveBack()
	l, err := layOut(p, &borrowed)
	if err != nil {
		return nil, nil, err
	}
	masks, err := holdMasks(l, &borrowed)
	return l, masks, err
}
