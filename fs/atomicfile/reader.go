package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// NewReader makes a file of a descriptor that was opened with O_NONBLOCK, for reads
// that never wait: where there is nothing yet they fail with EAGAIN. Some regular
// files of the kernel have no end but wait for more, /proc/kmsg for one, and a search
// or a hash would hang there for good.
func NewReader(fd int, name string) *os.File {
	// Package os waits in place of the system for descriptors that do not block, and
	// looks at that once, here.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	f := os.NewFile(uintptr(fd), name)
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
	return f
}
