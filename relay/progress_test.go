package relay_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// unread is a handler of requests, of which there are none.
type unread struct{}

func (unread) HandleRequest(context.Context, *rpc.Request)              {}
func (unread) HandleNotification(context.Context, string, []byte) error { return nil }

// A slow relay makes progress with one long message: its sender is not taken for one that
// keeps memory, although others wait for it.
func TestSM4SlowRelayIsNotStuck(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 48 << 20
				ha, ex := transports(t)
				ca, cb := simnet.Carriers(simnet.CarrierConfig{})
				a := feed(relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: ha, Carrier: ca}), ca)
				b := feed(relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: ex, Carrier: slowly{cb}}), slowly{cb})
				budget := rpc.NewBudget(64 << 20)
				account := budget.NewAccount(func(reason string) { t.Error(reason) })
				peer := rpc.NewPeer(a, rpc.PeerConfig{Handler: unread{}, Account: account})
				account.Force(size)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					if err := a.Write(context.Background(), bytes.Repeat([]byte("x"), size)); err != nil {
						t.Error(err)
					}
					account.Give(size)
				}()
				waiting := make(chan struct{})
				go func() {
					defer close(waiting)
					other := budget.NewAccount(nil)
					for other.Take(context.Background(), 40<<20) != nil { // and tries again
					}
					other.Give(40 << 20)
				}()
				if msg, err := b.Read(t.Context()); err != nil || len(msg) != size {
					t.Errorf("%d bytes, %v", len(msg), err)
				}
				<-sent
				<-waiting
				_ = peer.Close()
				_ = b.Close()
				_ = ca.Close()
				_ = cb.Close()
				<-a.done
				<-b.done
				<-time.After(2 * protocol.MemoryPatience) // the budget's watch ends
			})
		})
	}
}

// slowly is a carrier that is read at 600 KB a second.
type slowly struct{ *simnet.Carrier }

func (s slowly) Read(ctx context.Context) ([]byte, error) {
	msg, err := s.Carrier.Read(ctx)
	if f, _ := frame.Decode(bytes.Clone(msg)); f.GetData() != nil {
		<-time.After(100 * time.Millisecond)
	}
	return msg, err
}
