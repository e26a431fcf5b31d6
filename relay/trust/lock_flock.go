//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package trust

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock keeps other processes, and other opens of this one, from locking f until it is
// closed. It waits for them a while.
func lock(f *os.File) error {
	deadline := time.Now().Add(lockWait)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case time.Now().After(deadline):
			return fmt.Errorf("lock %s: another process has held it for %s", f.Name(), lockWait)
		}
		time.Sleep(lockPoll) //nolint:forbidigo // the system has no wait with an end
	}
}
