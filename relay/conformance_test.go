package relay_test

import (
	"context"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
)

// attend is what a harness does for a stream with a socket of its own: it reads as fast
// as the stream is read.
func attend(t testing.TB, s *relay.Stream, carrier relay.Carrier) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.Detach()
		for {
			if s.Info().Profile == frame.Codex && s.WaitRoom(context.Background()) != nil {
				return
			}
			msg, err := carrier.Read(context.Background())
			if err != nil {
				return
			}
			if f, err := frame.Decode(msg); err == nil {
				s.Handle(f, nil)
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.Close()
		_ = carrier.Close()
		<-done
	})
}

func TestConnection(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
				ta, tb := transports(t)
				ca, cb := rpc.Pair()
				a := relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: ta, Carrier: ca})
				b := relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: tb, Carrier: cb})
				attend(t, a, ca)
				attend(t, b, cb)
				return a, b
			})
		})
	}
}
