//go:build !linux && !darwin

package dirfd

import "golang.org/x/sys/unix"

func renameExclusive(int, string, int, string) error { return unix.ENOSYS }
