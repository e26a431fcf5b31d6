package sandbox

import (
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// A borrowedDir is a directory with the mode that it has to get back.
type borrowedDir struct {
	fd         int
	mode, lent uint32
}

// borrowing is held while anything is borrowed: what one layout gives back another must
// not be using.
var borrowing sync.Mutex

// borrow gives this process, if it owns the directory at, all rights to it.
func (r *rights) borrow(at string) error {
	fd, err := openPlain(at, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o700 == 0o700) {
		err = unix.EACCES
	}
	if err == nil && st.Mode&0o100 == 0 && os.Geteuid() != 0 && int(st.Gid) != os.Getegid() {
		err = errForeign // a helper is privileged for its own group only
	}
	if err != nil {
		_ = unix.Close(fd)
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	if len(r.dirs) == 0 {
		borrowing.Lock()
		if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 == 0o700 {
			borrowing.Unlock()
			_ = unix.Close(fd)
			return nil // its owner has opened it meanwhile
		}
	}
	d := borrowedDir{fd: fd, mode: st.Mode & 0o7777, lent: st.Mode&0o7777 | 0o700}
	r.dirs = append(r.dirs, d)
	if err := d.chmod(d.lent); err != nil {
		return &os.PathError{Op: "chmod", Path: at, Err: err}
	}
	return nil
}

func (d borrowedDir) chmod(mode uint32) error {
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(d.fd), mode)
}

// giveBack restores the modes that nobody has changed meanwhile.
func (r *rights) giveBack() {
	if len(r.dirs) == 0 {
		return
	}
	for i := len(r.dirs) - 1; i >= 0; i-- {
		d := r.dirs[i]
		var st unix.Stat_t
		if unix.Fstat(d.fd, &st) == nil && st.Mode&0o7777 == d.lent {
			_ = d.chmod(d.mode)
		}
		_ = unix.Close(d.fd)
	}
	r.dirs = nil
	borrowing.Unlock()
}
