package rpc_test

import (
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
)

func TestPair(t *testing.T) {
	rpctest.TestConnection(t, func(*testing.T) (rpc.Connection, rpc.Connection) { return rpc.Pair() })
}
