package rendezvous_test

import (
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/statetest"
)

func TestMemory(t *testing.T) {
	statetest.Run(t, func(*testing.T) rendezvous.State { return rendezvous.NewMemory() })
}
