package relaytest

import (
	"testing/synctest"
	"time"
)

// settle waits until everything that began has come to rest: in a bubble only.
func settle() { pause(5 * time.Second) }

// pause lets the time of a bubble pass, and what is due then happen.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
