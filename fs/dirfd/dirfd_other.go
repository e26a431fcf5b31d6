//go:build !linux

package dirfd

import "golang.org/x/sys/unix"

// Path opens what is only named, not read or written. Directory is Path for a directory.
const (
	Path      = unix.O_RDONLY | unix.O_NONBLOCK
	Directory = unix.O_RDONLY | unix.O_DIRECTORY
)

// OpenNoLinks opens what a path leads to without a link: below an open directory, or, with AT_FDCWD, an absolute path.
// A link is ELOOP or ENOTDIR. A path that leaves the directory, an absolute one too, is EXDEV.
func OpenNoLinks(dir int, path string, flags int) (int, error) { return openWalking(dir, path, flags) }
