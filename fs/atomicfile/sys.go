package atomicfile

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// again repeats a system call while a signal interrupts it.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func openat(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

func openDirectory(at int, name string) (int, error) {
	return openat(at, name, directoryFlags, 0)
}

// walkNoLinks opens a directory component by component.
func walkNoLinks(p string) (int, error) {
	at, err := openDirectory(unix.AT_FDCWD, "/")
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == "" {
			continue
		}
		next, err := openat(at, name, directoryFlags|unix.O_NOFOLLOW, 0)
		_ = unix.Close(at)
		if err != nil {
			if errors.Is(err, unix.ELOOP) {
				err = unix.ENOTDIR
			}
			return -1, err
		}
		at = next
	}
	return at, nil
}

func fstat(fd int, st *unix.Stat_t) error {
	return again(func() error { return unix.Fstat(fd, st) })
}

func fstatat(dir int, name string, st *unix.Stat_t, flags int) error {
	return again(func() error { return unix.Fstatat(dir, name, st, flags) })
}

func readlinkat(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		var n int
		err := again(func() (err error) {
			n, err = unix.Readlinkat(dir, name, buf)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}
