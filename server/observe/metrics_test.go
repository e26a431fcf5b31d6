package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
	"github.com/wsd-dev/wsd/server"
)

// service serves two methods, one of which fails.
type service struct{}

func (service) work(context.Context, *protocol.Empty) (*protocol.Empty, error) {
	return &protocol.Empty{}, nil
}

func (service) fail(context.Context, *protocol.Empty) (*protocol.Empty, error) {
	return nil, protocol.Errorf(protocol.CodeNotFound, "no such file: /secret/name")
}

func (service) Close() error { return nil }

// run serves one client with observer, has fn use it, and waits for the end.
func run(t *testing.T, observer server.Observer, fn func(s *server.Server, client *rpc.Peer)) {
	t.Helper()
	table := rpc.NewTable()
	server.Register(table)
	rpc.Handle(table, rpc.Spec[protocol.Empty]{Name: "test/work", Family: "test"}, service.work)
	rpc.Handle(table, rpc.Spec[protocol.Empty]{Name: "test/fail", Family: "test"}, service.fail)
	s := server.New(server.Config{
		Table: table, Observer: observer,
		NewConnection: func(rpc.Notifier) []rpc.Service { return []rpc.Service{service{}} },
	})
	near, far := rpc.Pair()
	served, called := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.ServeConnection(context.Background(), near, server.ConnectionOptions{}) }()
	client := rpc.NewPeer(far, rpc.PeerConfig{})
	go func() { called <- client.Serve(context.Background()) }()
	if err := client.Call(t.Context(), protocol.MethodInitialize, &protocol.InitializeParams{ClientName: "c"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := client.Notify(t.Context(), protocol.NotifyInitialized, protocol.Empty{}); err != nil {
		t.Fatal(err)
	}
	fn(s, client)
	client.Close()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if err := <-called; err != nil {
		t.Errorf("client: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func call(t *testing.T, client *rpc.Peer, method string) error {
	t.Helper()
	return client.Call(t.Context(), method, nil, nil)
}

func TestMetrics(t *testing.T) { synctest.Test(t, testMetrics) }

func testMetrics(t *testing.T) {
	m := NewMetrics("1.2.3")
	run(t, m.Observer(), func(s *server.Server, client *rpc.Peer) {
		m.Watch(s.Stats, func() int { return 7 })
		for range 3 {
			if err := call(t, client, "test/work"); err != nil {
				t.Fatal(err)
			}
		}
		if err := call(t, client, "test/fail"); err == nil {
			t.Fatal("no error")
		}
		if err := call(t, client, "no/such/"+strings.Repeat("x", 100)); err == nil {
			t.Fatal("no error")
		}
		synctest.Wait() // a client may have the last answer before that has been counted

		want := `
# HELP wsd_build_info What is running; always 1.
# TYPE wsd_build_info gauge
wsd_build_info{version="1.2.3"} 1
# HELP wsd_connections Connections.
# TYPE wsd_connections gauge
wsd_connections 1
# HELP wsd_messages_total JSON-RPC messages.
# TYPE wsd_messages_total counter
wsd_messages_total{direction="in"} 7
wsd_messages_total{direction="out"} 6
# HELP wsd_processes Running processes.
# TYPE wsd_processes gauge
wsd_processes 7
# HELP wsd_requests_in_flight Requests that run.
# TYPE wsd_requests_in_flight gauge
wsd_requests_in_flight 0
# HELP wsd_requests_total Requests, by method and outcome.
# TYPE wsd_requests_total counter
wsd_requests_total{code="-32004",method="test/fail"} 1
wsd_requests_total{code="-32601",method="unknown"} 1
wsd_requests_total{code="ok",method="initialize"} 1
wsd_requests_total{code="ok",method="test/work"} 3
# HELP wsd_sessions Sessions, with and without a connection.
# TYPE wsd_sessions gauge
wsd_sessions{state="attached"} 1
wsd_sessions{state="detached"} 0
`
		if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), "wsd_build_info", "wsd_connections",
			"wsd_messages_total", "wsd_processes", "wsd_requests_in_flight", "wsd_requests_total", "wsd_sessions"); err != nil {
			t.Error(err)
		}
	})

	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	page := rec.Body.String()
	for _, want := range []string{`wsd_request_duration_seconds_count{method="test/work"} 3`, `wsd_message_bytes_total{direction="in"}`, "go_goroutines", "wsd_connections 0"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if strings.Contains(page, "no/such") || strings.Contains(page, "/secret/") {
		t.Errorf("a client's own words are in the metrics:\n%s", page)
	}
}

func TestMetricsLint(t *testing.T) {
	m := NewMetrics("1")
	m.Watch(func() server.Stats { return server.Stats{} }, func() int { return 0 })
	_, done := m.request(t.Context(), "m", wire.TraceContext{})
	done(errors.New("x"))
	m.counter("in")(1)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestJoin(t *testing.T) {
	var order []string
	observer := func(name string) server.Observer {
		return server.Observer{
			Request: func(ctx context.Context, _ string, _ wire.TraceContext) (context.Context, func(error)) {
				order = append(order, name+" begins")
				return ctx, func(error) { order = append(order, name+" ends") }
			},
			Received: func(n int) { order = append(order, fmt.Sprint(name, " received ", n)) },
			Sent:     func(n int) { order = append(order, fmt.Sprint(name, " sent ", n)) },
		}
	}
	joined := Join(server.Observer{}, observer("a"), server.Observer{}, observer("b"))
	joined.Received(1)
	joined.Sent(2)
	_, done := joined.Request(t.Context(), "m", wire.TraceContext{})
	done(nil)
	if got, want := strings.Join(order, ", "), "a received 1, b received 1, a sent 2, b sent 2, a begins, b begins, b ends, a ends"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if none := Join(); none.Request != nil || none.Received != nil || none.Sent != nil {
		t.Error("something came of nothing")
	}
}
