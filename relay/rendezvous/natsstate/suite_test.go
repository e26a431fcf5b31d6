package natsstate

import (
	"fmt"
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
	"github.com/wsd-dev/wsd/relay/rendezvous/statetest"
)

// The suite on a cluster, each call through another server than the one before.
func TestState(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 3)
	n := 0
	statetest.Run(t, func(t *testing.T) rendezvous.State {
		n++
		var states []rendezvous.State
		for _, address := range c.Addresses() {
			states = append(states, open(t, c, func(cfg *Config) {
				at(address)(cfg)
				cfg.Bucket = fmt.Sprint("suite-", n)
			}))
		}
		return statetest.Spread(states...)
	})
}

// The suite on a server on its own.
func TestStateAlone(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 1)
	n := 0
	statetest.Run(t, func(t *testing.T) rendezvous.State {
		n++
		return open(t, c, func(cfg *Config) { cfg.Bucket = fmt.Sprint("suite-", n) })
	})
}
