package process

import (
	"errors"
	"os"
	"syscall"
)

// tryWrite writes what f, which does not block, takes of p at once.
func tryWrite(f *os.File, p []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	rawErr := raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), p)
		return true
	})
	if rawErr != nil {
		return 0, rawErr
	}
	n = max(n, 0)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return n, err
}
