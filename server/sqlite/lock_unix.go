package sqlite

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openLock opens the file of a lock, and makes it if need be. It is written to: a link
// that somebody put there would lead to another file.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%s is a link: remove it", path)
	}
	return file, err
}

// tryLock takes the lock of the file if it is free. It ends with the open file, of which
// no other process has a copy: Go's files are closed on exec.
func tryLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// shareLock takes the lock of a file that is open for reading, beside others that do so.
func shareLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// alive reports whether there is such a process, as far as this one can see.
func alive(pid int) bool {
	return pid != 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
