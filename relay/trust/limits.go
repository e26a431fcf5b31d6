package trust

import "time"

const (
	// MaxIdentityBytes bounds an identity file, which has about 300 bytes.
	MaxIdentityBytes = 4 << 10
	// MaxFileBytes bounds a file of keys: some ten thousand lines. A longer one is not
	// read, and none is made longer.
	MaxFileBytes = 1 << 20
	// MaxNameBytes bounds the name of an executor.
	MaxNameBytes = 1024
	// lockWait is how long to wait for another process that adds a line, lockPoll how
	// often to look.
	lockWait = 5 * time.Second
	lockPoll = 10 * time.Millisecond
)
