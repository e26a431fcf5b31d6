package process_test

import (
	"context"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// starter starts processes on a service whose notifier does not need a connection.
func starter(t testing.TB, service *process.Service) func(*protocol.StartParams) {
	t.Helper()
	table := rpc.NewTable()
	process.Register(table)
	scope := table.NewScope()
	scope.Bind(service)
	a, b := rpc.Pair()
	server := rpc.NewPeer(a, rpc.PeerConfig{Handler: serverHandler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}})
	client := rpc.NewPeer(b, rpc.PeerConfig{})
	var wg sync.WaitGroup
	for _, p := range []*rpc.Peer{server, client} {
		wg.Go(func() { _ = p.Serve(context.Background()) })
		t.Cleanup(func() { p.Close() })
	}
	return func(p *protocol.StartParams) {
		var result protocol.StartResult
		if err := client.Call(context.Background(), protocol.MethodProcessStart, p, &result); err != nil {
			t.Fatal(err)
		}
	}
}
