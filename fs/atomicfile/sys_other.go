//go:build !linux

package atomicfile

import "golang.org/x/sys/unix"

// openUnnamed: files without a name are Linux's; named ones serve instead.
func openUnnamed(int, uint32) (int, error) { return -1, unix.EOPNOTSUPP }

func linkUnnamed(int, int, string) error { return unix.EOPNOTSUPP }
