package rpc_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// lingering is a connection whose Close takes a while, as that of a relay stream does
// that has to say goodbye.
type lingering struct {
	rpc.Connection
	while time.Duration
}

func (l lingering) Close() error {
	time.Sleep(l.while)
	return l.Connection.Close()
}

// Several close a Peer at once: each returns when it is closed, and none waits on a
// mutex meanwhile, which would stop the time of a bubble, and this test with it.
func TestCloseTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rpc.Pair()
		defer b.Close()
		p := rpc.NewPeer(lingering{a, time.Second}, rpc.PeerConfig{})
		began := time.Now()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				if i%2 == 0 {
					_ = p.Close()
				} else {
					p.CloseFault(rpc.ClosePolicyViolation, "for a reason")
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("returned after %v", took)
				}
			})
		}
		all.Wait()
		if p.Err() == nil {
			t.Error("still open")
		}
	})
}
