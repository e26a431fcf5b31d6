package fs

import (
	"sync"
	"time"

	"github.com/wsd-dev/wsd/fs/watch"
)

// Host is what all Services of a server share.
type Host struct {
	locks locks
	watch *watch.Hub

	helperIdle time.Duration
}

// NewHost makes a Host.
func NewHost() *Host {
	return &Host{
		locks: locks{held: make(map[lockKey]*lock)}, watch: watch.NewHub(),
		helperIdle: helperIdle,
	}
}

// processHost is the Host of Services that are given none. There is one, because the
// files it guards are the same for all.
var processHost = sync.OnceValue(NewHost)
