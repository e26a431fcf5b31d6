package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// dropCapabilities leaves the calling thread, and what it executes, without any
// capability and without a way to one.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last one
		}
		if errors.Is(err, unix.EPERM) {
			break // has none to drop with, so no_new_privs has to do
		}
		if err != nil {
			return step(err, "drop capability %d", c)
		}
	}
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return step(err, "drop ambient capabilities")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return step(unix.Capset(&header, &none[0]), "drop capabilities")
}

// noNewPrivileges keeps executed programs from gaining any, by the set-user-ID bit or
// otherwise.
func noNewPrivileges() error {
	return step(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")
}
