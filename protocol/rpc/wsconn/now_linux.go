//go:build !race

package wsconn

import (
	"syscall"
	"unsafe"
)

// readNow reads what there is, from a descriptor that does not block.
func readNow(fd int, p []byte) (int, error) { return callNow(syscall.SYS_READ, fd, p) }

// writeNow writes what such a descriptor takes.
func writeNow(fd int, p []byte) (int, error) { return callNow(syscall.SYS_WRITE, fd, p) }

func callNow(number uintptr, fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
