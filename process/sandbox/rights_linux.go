package sandbox

import (
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// A borrowedDir is a directory with the mode that it has to get back.
type borrowedDir struct {
	fd         int
	mode, lent uint32
}

// borrowing is locked while a layout has borrowed rights. Otherwise one layout could
// restore the mode of a directory that another is still searching.
var borrowing sync.Mutex

// borrow gives this process, if it owns the directory at, all rights to it. It has also
// succeeded where the owner has opened the directory meanwhile.
func (r *rights) borrow(at string) error {
	fd, err := dirfd.OpenNoLinks(unix.AT_FDCWD, at, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	kept, err := r.lend(fd)
	if !kept {
		_ = unix.Close(fd)
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	return nil
}

// lend is borrow for an open directory. kept is true if the descriptor is kept.
func (r *rights) lend(fd int) (kept bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if int(st.Uid) != os.Geteuid() {
		return false, unix.EACCES
	}
	if len(r.dirs) == 0 {
		borrowing.Lock()
		defer func() {
			if len(r.dirs) == 0 {
				borrowing.Unlock()
			}
		}()
	}
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o700 == 0o700 {
		return false, err
	}
	id := [2]uint64{uint64(st.Dev), st.Ino} //nolint:unconvert // the type of Dev depends on the machine
	if d, again := r.dirs[id]; again {
		return false, d.chmod(d.lent) // its owner has closed it again
	}
	switch {
	case st.Mode&0o100 == 0 && os.Geteuid() != 0 && int(st.Gid) != os.Getegid():
		return false, errForeign // a helper is privileged for its own group only
	case len(r.dirs) == maxBorrowed:
		return false, errForeign
	}
	d := borrowedDir{fd: fd, mode: st.Mode & 0o7777, lent: st.Mode&0o7777 | 0o700}
	if err := d.chmod(d.lent); err != nil {
		return false, err
	}
	if r.dirs == nil {
		r.dirs = make(map[[2]uint64]borrowedDir)
	}
	r.dirs[id] = d
	return true, nil
}

func (d borrowedDir) chmod(mode uint32) error {
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(d.fd), mode)
}

// giveBack restores the modes that nobody has changed meanwhile.
func (r *rights) giveBack() {
	if len(r.dirs) == 0 {
		return
	}
	for _, d := range r.dirs {
		var st unix.Stat_t
		if unix.Fstat(d.fd, &st) == nil && st.Mode&0o7777 == d.lent {
			_ = d.chmod(d.mode)
		}
		_ = unix.Close(d.fd)
	}
	r.dirs = nil
	borrowing.Unlock()
}
