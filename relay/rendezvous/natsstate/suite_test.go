package natsstate

import (
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
	"github.com/wsd-dev/wsd/relay/rendezvous/statetest"
)

// patience bounds what must happen soon.
const patience = 60 * time.Second

// Elections and timeouts make some tests wait for most of their time: let more run at once
// than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// These leave a cluster as they find it, and share one.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 3)
	for name, test := range map[string]func(*testing.T, *natstest.Cluster){
		"State": testState, "OneTaker": testOneTaker, "Replicas": testReplicas,
		"OpenAtOnce": testOpenAtOnce, "ListWhileWriting": testListWhileWriting,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

var buckets atomic.Int32

// fresh gives a state a bucket that was not used before.
func fresh() func(*Config) {
	name := fmt.Sprint("test-", buckets.Add(1))
	return func(cfg *Config) { cfg.Bucket = name }
}

// The suite, each call through another server than the one before.
func testState(t *testing.T, c *natstest.Cluster) {
	statetest.Run(t, func(t *testing.T) rendezvous.State {
		bucket := fresh()
		var states []rendezvous.State
		for _, address := range c.Addresses() {
			states = append(states, open(t, c, at(address), bucket))
		}
		return statetest.Spread(states...)
	})
}

// The suite on a server on its own.
func TestAlone(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 1)
	statetest.Run(t, func(t *testing.T) rendezvous.State { return open(t, c, fresh()) })
}
