package executor

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// C-037: a relay that takes the WebSocket and then says nothing, not even to pings, is
// given up 90 s later, and replaced. So is one whose machine vanishes.
func TestSilentRelay(t *testing.T) {
	for _, vanish := range []bool{false, true} {
		name := map[bool]string{false: "silent", true: "vanished"}[vanish]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := simnet.New(1)
				listener, err := network.Host("relay").Listen(80)
				if err != nil {
					t.Fatal(err)
				}
				connected := make(chan *websocket.Conn, 10)
				end := make(chan struct{})
				server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					ws, err := new(websocket.Upgrader).Upgrade(rw, r, nil)
					if err != nil {
						t.Error(err)
						return
					}
					connected <- ws
					<-end // without a word, and without reading
					_ = ws.Close()
				})}
				go func() { _ = server.Serve(listener) }()
				t.Cleanup(func() { _ = server.Close() })
				t.Cleanup(func() { close(end) })

				w := newWorld(t)
				w.register = func(int) (int, any) {
					reg := registration(0)
					reg.URL = "ws://localhost/relay"
					return 200, reg
				}
				cfg := w.config()
				here := network.Host("here")
				cfg.Dial = func(ctx context.Context, _ string) (relay.Carrier, error) {
					return relay.Dial(ctx, "ws://relay:80/", relay.DialConfig{NetDial: here.Dial})
				}
				stop := w.run(cfg)
				<-connected
				begun := time.Now()
				if vanish {
					pass(time.Second)
					network.Host("relay").Vanish(true)
					pass(100 * time.Second) // the attempts meanwhile fail, too
					network.Host("relay").Vanish(false)
				}
				<-connected
				least := relay.PingInterval + relay.PongTimeout
				if took := time.Since(begun); took < least || took > least+40*time.Second {
					t.Errorf("replaced after %v", took)
				} else {
					t.Logf("replaced after %v", took)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
