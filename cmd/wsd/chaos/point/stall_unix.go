//go:build unix

package point

import (
	"time"

	"golang.org/x/sys/unix"
)

// stall blocks the thread for d in the kernel, whose time no test fakes.
func stall(d time.Duration) {
	_, _ = unix.Poll(nil, int(d.Round(time.Millisecond)/time.Millisecond))
}
