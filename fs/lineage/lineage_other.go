//go:build !linux

package lineage

import "golang.org/x/sys/unix"

// bootID is the same until the machine is started again.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// mounts are none: there are no bind mounts.
func mounts() []mount { return nil }
