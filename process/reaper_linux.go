package process

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inheritsOrphans reports whether processes whose parents end become children of
// this program.
func inheritsOrphans() bool {
	if os.Getpid() == 1 {
		return true
	}
	var subreaper int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0)
	return err == nil && subreaper != 0
}

// zombieExists reports whether some child has ended and was not waited for.
func zombieExists() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// isZombie reports whether a child of this program has ended.
func isZombie(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}
