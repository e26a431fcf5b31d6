package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fileCapabilities are those by which root reads, writes and owns every file.
const fileCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH |
	1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// dropCapabilities leaves the calling thread, and what it executes, without any
// capability but those in keep that it has, and without a way to others.
func dropCapabilities(keep uint32) error {
	for c := uintptr(0); ; c++ {
		if c < 32 && keep&(1<<c) != 0 {
			continue
		}
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
	var has, kept [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return step(err, "look at the capabilities")
	}
	kept[0].Permitted, kept[0].Effective = has[0].Permitted&keep, has[0].Effective&keep
	return step(unix.Capset(&header, &kept[0]), "drop capabilities")
}

// noNewPrivileges keeps executed programs from gaining any, by the set-user-ID bit or
// otherwise.
func noNewPrivileges() error {
	return step(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")
}
