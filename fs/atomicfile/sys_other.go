//go:build !linux

package atomicfile

import "golang.org/x/sys/unix"

const directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY

func openDirectoryNoLinks(p string) (int, error) { return walkNoLinks(p) }

// openUnnamed: files without a name are Linux's; named ones serve instead.
func openUnnamed(int, uint32) (int, error) { return -1, unix.EOPNOTSUPP }

func linkUnnamed(int, int, string) error { return unix.EOPNOTSUPP }

func renameExclusive(dir int, from, to string) error { return linkExclusive(dir, from, to) }
