// Package point disturbs the scheduling of goroutines. The chaos command puts a call of it
// before each use of a channel or a mutex.
package point

import (
	"math/rand/v2"
	"runtime"
	"time"
)

const (
	yieldOneIn = 4
	stallOneIn = 400
	// longestStall is longer than a timer that fires at once takes, and shorter than what
	// makes a test slow.
	longestStall = 2 * time.Millisecond
)

// Here yields the processor in one call of four, and stalls the goroutine, with its thread,
// in one call of four hundred. It does not use the time that a test may have faked.
func Here() {
	n := rand.Uint32()
	switch {
	case n%stallOneIn == 0:
		stall(time.Duration(rand.Int64N(int64(longestStall))))
	case n%yieldOneIn == 0:
		runtime.Gosched()
	}
}
