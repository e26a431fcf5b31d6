package relay_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// rendezvous serves handler and returns its WebSocket URL.
func rendezvous(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

// upgraded hands out the WebSockets that come to it.
func upgraded(t *testing.T) (http.HandlerFunc, <-chan *websocket.Conn) {
	t.Helper()
	accepted := make(chan *websocket.Conn, 1)
	return func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- ws
	}, accepted
}

// "HTTP/1.1 upgrade, no subprotocol, no extensions offered; authentication header on the
// upgrade: none."
func TestDialRequest(t *testing.T) {
	upgrade, accepted := upgraded(t)
	requests := make(chan *http.Request, 1)
	url := rendezvous(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		upgrade(w, r)
	})
	header := http.Header{"X-Test": {"yes"}}
	for _, id := range []bool{false, true, true} {
		carrier, err := relay.NewDialer(relay.DialConfig{Header: header, RequestID: id})(t.Context(), url+"/path?sig=x")
		if err != nil {
			t.Fatal(err)
		}
		r := <-requests
		for _, absent := range []string{"Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions", "Authorization"} {
			if v := r.Header.Get(absent); v != "" {
				t.Errorf("%s: %s", absent, v)
			}
		}
		if r.Proto != "HTTP/1.1" || r.URL.String() != "/path?sig=x" || r.Header.Get("X-Test") != "yes" {
			t.Errorf("%s %s %v", r.Proto, r.URL, r.Header)
		}
		if got := r.Header.Get("X-Request-Id"); regexp.MustCompile("^req_[0-9a-f]{32}$").MatchString(got) != id {
			t.Errorf("request id %q", got)
		}
		_ = carrier.Close()
		_ = (<-accepted).Close()
	}
	if len(header) != 1 {
		t.Errorf("the caller's header is now %v", header)
	}
}

func TestDialRefused(t *testing.T) {
	long := strings.Repeat("long ", 100)
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		reason string
	}{
		{"WithReason", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(relay.RejectionHeader, "pod_draining")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 503, "pod_draining"},
		{"WithoutReason", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, 403, ""},
		{"Redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, 302, ""},
		{"NoWebSocket", func(http.ResponseWriter, *http.Request) {}, 200, ""},
		{"LongReason", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(relay.RejectionHeader, long)
			w.WriteHeader(http.StatusBadGateway)
		}, 502, long[:128]},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := relay.Dial(t.Context(), rendezvous(t, c.answer)+"/?sig=secret", relay.DialConfig{})
			refused, ok := errors.AsType[*relay.RefusedError](err)
			if !ok || refused.Status != c.status || refused.Reason != c.reason {
				t.Fatalf("got %#v, %v", refused, err)
			}
			if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("error %q", err)
			}
		})
	}
}

// The URL is a credential: no error tells it.
func TestDialErrorsHideTheURL(t *testing.T) {
	for _, url := range []string{"ws://127.0.0.1:1/?sig=secret", "ws://secret@127.0.0.1:1/", "nonsense://x/secret", "ws://no.such.host.invalid/?sig=secret", "ws://\x7f/secret", "http://127.0.0.1:1/secret"} {
		_, err := relay.Dial(t.Context(), url, relay.DialConfig{})
		if err == nil {
			t.Fatalf("%s: no error", url)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("error %q", err)
		}
	}
}

// One frame a binary message, either way; a text message is skipped by who can go on.
func TestCarrierMessages(t *testing.T) {
	upgrade, accepted := upgraded(t)
	carrier, err := relay.Dial(t.Context(), rendezvous(t, upgrade), relay.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer carrier.Close()
	ws := <-accepted
	defer ws.Close()
	frame := bytes.Repeat([]byte("x"), 61_600)
	if err := carrier.Write(t.Context(), frame); err != nil {
		t.Fatal(err)
	}
	kind, r, err := ws.NextReader()
	if err != nil || kind != websocket.BinaryMessage {
		t.Fatal(kind, err)
	}
	if n, _ := r.Read(make([]byte, 1)); n != 1 {
		t.Error("nothing to read")
	}
	go func() {
		_ = ws.WriteMessage(websocket.TextMessage, []byte("text"))
		_ = ws.WriteMessage(websocket.BinaryMessage, make([]byte, relay.MaxFrame))
		_ = ws.WriteMessage(websocket.BinaryMessage, make([]byte, relay.MaxFrame+1))
	}()
	if _, err := carrier.Read(t.Context()); !errors.Is(err, wsconn.ErrText) {
		t.Errorf("a text message: %v", err)
	}
	if msg, err := carrier.Read(t.Context()); err != nil || len(msg) != relay.MaxFrame {
		t.Errorf("the longest frame: %d, %v", len(msg), err)
	}
	if _, err := carrier.Read(t.Context()); !errors.Is(err, rpc.ErrTooLarge) {
		t.Errorf("a longer one: %v", err)
	}
}

// S-R11: what a name leads to is checked as the socket is made, and a redirect is not
// followed.
func TestSR11DialChecksAddresses(t *testing.T) {
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	ctx := relay.CheckAddresses(t.Context(), func(addr netip.Addr) error {
		if addr.Unmap().IsLoopback() {
			return refused
		}
		return nil
	})
	for _, host := range []string{"localhost", "127.0.0.1"} {
		if _, err := relay.Dial(ctx, "ws://"+host+":"+port, relay.DialConfig{}); !errors.Is(err, refused) || asked != 0 {
			t.Errorf("%s: %v, asked %d times", host, err, asked)
		}
	}
	if _, err := relay.Dial(t.Context(), "ws://127.0.0.1:"+port, relay.DialConfig{}); err == nil || asked != 1 {
		t.Errorf("without a check: %v, asked %d times", err, asked)
	}
}

// overNetwork runs f in a bubble with a server that upgrades, and returns its side.
func overNetwork(t *testing.T, f func(t *testing.T, host *simnet.Host, accepted <-chan *websocket.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		listener, err := network.Host("relay").Listen(80)
		if err != nil {
			t.Fatal(err)
		}
		upgrade, accepted := upgraded(t)
		srv := &http.Server{Handler: upgrade}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(listener) }()
		f(t, network.Host("harness"), accepted)
		_ = srv.Close()
		<-done
	})
}

// A relay that does not answer the upgrade is given up after 10 s.
func TestConnectTimeout(t *testing.T) {
	overNetwork(t, func(t *testing.T, host *simnet.Host, _ <-chan *websocket.Conn) {
		host.Vanish(true)
		defer host.CutAll()
		began := time.Now()
		_, err := relay.Dial(t.Context(), "ws://relay/", relay.DialConfig{NetDial: host.Dial})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != relay.ConnectTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// "Both sides send an empty Ping 30 s after connect; 60 s after the Ping" without a pong
// the socket is dropped, whatever else comes.
func TestDroppedAfterSilence(t *testing.T) {
	overNetwork(t, func(t *testing.T, host *simnet.Host, accepted <-chan *websocket.Conn) {
		carrier, err := relay.Dial(t.Context(), "ws://relay/", relay.DialConfig{NetDial: host.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer carrier.Close()
		began := time.Now()
		ws := <-accepted
		defer ws.Close()
		answered := 0
		pings := make(chan time.Duration, 10)
		ws.SetPingHandler(func(payload string) error {
			pings <- time.Since(began)
			if payload != "" {
				t.Errorf("ping with %q", payload)
			}
			if answered++; answered > 3 {
				return nil
			}
			return ws.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
		})
		go func() { _, _, _ = ws.ReadMessage() }()
		stopped := make(chan struct{})
		defer func() { <-stopped }()
		go func() {
			defer close(stopped)
			for ws.WriteMessage(websocket.BinaryMessage, []byte("busy")) == nil {
				time.Sleep(7 * time.Second)
			}
		}()
		for err = nil; err == nil; {
			_, err = carrier.Read(t.Context())
		}
		if !errors.Is(err, wsconn.ErrSilent) {
			t.Errorf("ended by %v", err)
		}
		for n := range 4 {
			want := time.Duration(n+1) * relay.PingInterval
			if at := <-pings; at < want || at > want+time.Second {
				t.Errorf("ping %d after %v", n, at)
			}
		}
		if at, want := time.Since(began), 4*relay.PingInterval+relay.PongTimeout; at < want || at > want+time.Second {
			t.Errorf("dropped after %v, want %v", at, want)
		}
	})
}
