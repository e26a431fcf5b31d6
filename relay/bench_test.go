package relay_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/seal"
)

// memory joins two carriers that are channels.
func memory(testing.TB) (a, b relay.Carrier) { return rpc.Pair() }

// loopback joins two carriers as they are, over TCP.
func loopback(tb testing.TB) (a, b relay.Carrier) {
	tb.Helper()
	accepted := make(chan relay.Carrier, 1)
	upgrader := websocket.Upgrader{WriteBufferSize: 72 << 10}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			tb.Error(err)
			return
		}
		accepted <- relay.NewWebSocketCarrier(ws)
	}))
	tb.Cleanup(srv.Close)
	a, err := relay.Dial(context.Background(), "ws"+strings.TrimPrefix(srv.URL, "http"), relay.DialConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	return a, <-accepted
}

// cpu is the processor time that this process has taken: of a machine that others use,
// the figure that can be compared.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchmark runs f over a pair of streams of each kind.
func benchmark(b *testing.B, f func(b *testing.B, x, y *relay.Stream)) {
	for name, carriers := range map[string]func(testing.TB) (relay.Carrier, relay.Carrier){"memory": memory, "websocket": loopback} {
		for _, p := range profiles {
			b.Run(name+"/"+string(p), func(b *testing.B) {
				ta, tb := transports(b)
				ca, cb := carriers(b)
				stream := func(t *seal.Transport, c relay.Carrier) *relay.Stream {
					return relay.NewStream(relay.StreamConfig{ID: "0b0e7a4c-5b0a-4b6e-9a53-3d0f6c1f6d7e", Profile: p, Transport: t, Carrier: c})
				}
				x, y := stream(ta, ca), stream(tb, cb)
				attend(b, x, ca)
				attend(b, y, cb)
				b.ReportAllocs()
				began := cpu()
				f(b, x, y)
				b.ReportMetric(float64(cpu()-began)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	benchmark(b, func(b *testing.B, x, y *relay.Stream) {
		ctx := context.Background()
		go func() { // ends with the stream
			for {
				msg, err := y.Read(ctx)
				if err != nil || y.Write(ctx, msg) != nil {
					return
				}
			}
		}()
		msg := bytes.Repeat([]byte("x"), 200)
		for b.Loop() {
			if err := x.Write(ctx, msg); err != nil {
				b.Fatal(err)
			}
			if _, err := x.Read(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkBulk(b *testing.B) {
	benchmark(b, func(b *testing.B, x, y *relay.Stream) {
		ctx := context.Background()
		msg := bytes.Repeat([]byte("x"), 64<<10)
		b.SetBytes(int64(len(msg)))
		got := make(chan error, 1)
		go func() {
			for {
				m, err := y.Read(ctx)
				if err != nil || len(m) == 1 {
					got <- err
					return
				}
			}
		}()
		for b.Loop() {
			if err := x.Write(ctx, msg); err != nil {
				b.Fatal(err)
			}
		}
		if err := x.Write(ctx, msg[:1]); err != nil {
			b.Fatal(err)
		}
		if err := <-got; err != nil {
			b.Fatal(err)
		}
	})
}
