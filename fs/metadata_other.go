//go:build !linux

package fs

import (
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

func statMetadata(dir int, name string, follow bool) (*protocol.Metadata, uint32, error) {
	if follow {
		return oldMetadata(dir, name, 0)
	}
	return oldMetadata(dir, name, unix.AT_SYMLINK_NOFOLLOW)
}
