package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

type slow struct{}

type slowParams struct {
	Name string  `json:"name"`
	Ms   int64   `json:"ms" wire:"optional"`
	Data []byte  `json:"data" wire:"optional"`
	Size *uint64 `json:"size" wire:"nullable"`
}

type slowResult struct {
	Name string `json:"name"`
}

func slowTable() *Table {
	t := NewTable()
	serial := Always[slowParams](Serial("lane"))
	Handle(t, Spec[slowParams]{Name: "serial", Family: "slow", Order: serial}, slow.sleep)
	Handle(t, Spec[slowParams]{Name: "poll", Family: "slow", Order: serial}, func(s slow, ctx context.Context, p *slowParams) (*slowResult, error) {
		Async(ctx)
		return s.sleep(ctx, p)
	})
	Handle(t, Spec[slowParams]{Name: "inline", Family: "slow", Order: Always[slowParams](Inline)}, slow.sleep)
	Handle(t, Spec[protocol.Empty]{Name: "panic", Family: "slow"}, func(slow, context.Context, *protocol.Empty) (*slowResult, error) {
		panic("oops")
	})
	Handle(t, Spec[slowParams]{Name: "own error", Family: "slow", ParamsError: func(err error) error {
		return protocol.Errorf(protocol.CodeInvalidRequest, "own: %v", err)
	}}, slow.sleep)
	Handle(t, Spec[slowParams]{Name: "after", Family: "slow"}, func(_ slow, ctx context.Context, p *slowParams) (*slowResult, error) {
		peer := ctx.Value(taskKey{}).(taskContext).req.peer
		AfterReply(ctx, func() { _ = peer.Notify(context.Background(), "note", slowResult{p.Name}) })
		return &slowResult{p.Name}, nil
	})
	Handle(t, Spec[slowParams]{Name: "unbound", Family: "slow"}, func(_ *testing.T, _ context.Context, _ *slowParams) (*slowResult, error) {
		return nil, errors.New("unreachable")
	})
	return t
}

func (slow) sleep(ctx context.Context, p *slowParams) (*slowResult, error) {
	select {
	case <-time.After(time.Duration(p.Ms) * time.Millisecond):
		return &slowResult{p.Name}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type dispatching struct{ *Dispatcher }

func (dispatching) HandleNotification(_ context.Context, method string, _ []byte) error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "unexpected notification: %s", method)
}

// raw runs a server in a bubble and gives the test its wire.
func raw(t *testing.T, cfg DispatcherConfig, body func(wire Connection)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scope := slowTable().NewScope()
		scope.Bind(slow{})
		a, b := Pair()
		d := NewDispatcher(scope, cfg)
		server := NewPeer(a, PeerConfig{Handler: dispatching{d}, ParsePrefix: "prefix: "})
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { done <- server.Serve(ctx) }()
		body(b)
		cancel()
		server.Close()
		<-done
		d.Wait()
	})
}

func exchange(t *testing.T, c Connection, send []string, want []string) {
	t.Helper()
	for _, msg := range send {
		if err := c.Write(context.Background(), []byte(msg)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range want {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		got, err := c.Read(ctx)
		cancel()
		if err != nil {
			t.Fatalf("waiting for %s: %v", w, err)
		}
		if string(got) != w {
			t.Errorf("got  %s\nwant %s", got, w)
		}
	}
}

func TestDispatch(t *testing.T) {
	for _, tc := range []struct {
		name       string
		send, want []string
	}{
		{
			"serial ones keep their order",
			[]string{`{"id":1,"method":"serial","params":{"name":"a","ms":50}}`, `{"id":2,"method":"serial","params":{"name":"b"}}`},
			[]string{`{"id":1,"result":{"name":"a"}}`, `{"id":2,"result":{"name":"b"}}`},
		},
		{
			"a poll holds up nobody",
			[]string{`{"id":1,"method":"poll","params":{"name":"a","ms":50}}`, `{"id":2,"method":"serial","params":{"name":"b"}}`},
			[]string{`{"id":2,"result":{"name":"b"}}`, `{"id":1,"result":{"name":"a"}}`},
		},
		{
			"inline comes first",
			[]string{`{"id":1,"method":"serial","params":{"name":"a","ms":50}}`, `{"id":2,"method":"inline","params":{"name":"b"}}`},
			[]string{`{"id":2,"result":{"name":"b"}}`, `{"id":1,"result":{"name":"a"}}`},
		},
		{
			"unknown method",
			[]string{`{"id":"x","method":"no/such"}`},
			[]string{"{\"error\":{\"code\":-32601,\"message\":\"exec-server stub does not implement `no/such` yet\"},\"id\":\"x\"}"},
		},
		{
			"unbound service",
			[]string{`{"id":1,"method":"unbound","params":{"name":"a"}}`},
			[]string{"{\"error\":{\"code\":-32601,\"message\":\"exec-server stub does not implement `unbound` yet\"},\"id\":1}"},
		},
		{
			"bad params",
			[]string{`{"id":1,"method":"serial"}`, `{"id":2,"method":"serial","params":[]}`, `{"id":3,"method":"own error","params":{}}`, `{"id":4,"method":"panic","params":[]}`},
			[]string{
				`{"error":{"code":-32602,"message":"serial: invalid type: null, expected struct slowParams"},"id":1}`,
				`{"error":{"code":-32602,"message":"serial: invalid type: sequence, expected struct slowParams"},"id":2}`,
				"{\"error\":{\"code\":-32600,\"message\":\"own: missing field `name`\"},\"id\":3}",
				`{"error":{"code":-32602,"message":"panic: invalid params: the method takes none"},"id":4}`,
			},
		},
		{
			"a panic is an answer",
			[]string{`{"id":1,"method":"panic"}`},
			[]string{`{"error":{"code":-32603,"message":"internal error while serving panic; the server's log has the details"},"id":1}`},
		},
		{
			"notifications after the answer",
			[]string{`{"id":1,"method":"after","params":{"name":"a"}}`},
			[]string{`{"id":1,"result":{"name":"a"}}`, `{"method":"note","params":{"name":"a"}}`},
		},
		{
			"faults",
			[]string{`{"method":"what"}`, `{"id":7,"result":1}`, `{`, `{"id":9}`},
			[]string{
				`{"error":{"code":-32600,"message":"unexpected notification: what"},"id":-1}`,
				`{"error":{"code":-32600,"message":"response to no request: id 7 is not waiting for one"},"id":-1}`,
				`{"error":{"code":-32600,"message":"prefix: key must be a string at byte 1"},"id":-1}`,
				`{"error":{"code":-32600,"message":"prefix: neither a request nor a response: method, result and error are missing"},"id":9}`,
			},
		},
		{
			"jsonrpc 2.0 is given back",
			[]string{`{"jsonrpc":"2.0","id":1,"method":"after","params":{"name":"a"}}`, `{"id":2,"method":"inline","params":{"name":"b"}}`},
			[]string{`{"id":2,"result":{"name":"b"}}`, `{"jsonrpc":"2.0","id":1,"result":{"name":"a"}}`, `{"jsonrpc":"2.0","method":"note","params":{"name":"a"}}`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw(t, DispatcherConfig{}, func(c Connection) {
				if strings.HasPrefix(tc.name, "jsonrpc") { // two requests beside each other: any order
					exchange(t, c, tc.send[:1], tc.want[1:])
					exchange(t, c, tc.send[1:], tc.want[:1])
					return
				}
				exchange(t, c, tc.send, tc.want)
			})
		})
	}
}

func TestConcurrencyOneIsInOrder(t *testing.T) {
	raw(t, DispatcherConfig{Concurrency: 1}, func(c Connection) {
		exchange(t, c,
			[]string{`{"id":1,"method":"serial","params":{"name":"a","ms":50}}`, `{"id":2,"method":"after","params":{"name":"b"}}`},
			[]string{`{"id":1,"result":{"name":"a"}}`, `{"id":2,"result":{"name":"b"}}`, `{"method":"note","params":{"name":"b"}}`})
	})
}

func TestGateAndObserver(t *testing.T) {
	var seen []string
	cfg := DispatcherConfig{
		Gate: func(m *Method) error {
			if m.Name == "serial" || m.Name == "unbound" {
				return protocol.Errorf(protocol.CodeInvalidRequest, "client must call initialize before using %s methods", m.Family)
			}
			return nil
		},
		Observe: func(ctx context.Context, method string, trace wire.TraceContext) (context.Context, func(error)) {
			return ctx, func(err error) { seen = append(seen, fmt.Sprint(method, " ", trace.Traceparent, " ", err)) }
		},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	raw(t, cfg, func(c Connection) {
		exchange(t, c, []string{`{"id":1,"method":"serial","params":{"name":"a"}}`, `{"id":2,"method":"serial","params":{}}`, `{"id":4,"method":"no/such"}`, `{"id":5,"method":"unbound","params":{"name":"a"}}`, `{"id":3,"method":"inline","params":{"name":"b"},"trace":{"traceparent":"tp"}}`},
			[]string{
				`{"error":{"code":-32600,"message":"client must call initialize before using slow methods"},"id":1}`,
				"{\"error\":{\"code\":-32602,\"message\":\"serial: missing field `name`\"},\"id\":2}",
				"{\"error\":{\"code\":-32601,\"message\":\"exec-server stub does not implement `no/such` yet\"},\"id\":4}",
				`{"error":{"code":-32600,"message":"client must call initialize before using slow methods"},"id":5}`,
				`{"id":3,"result":{"name":"b"}}`,
			})
	})
	want := []string{
		"serial  client must call initialize before using slow methods",
		"serial  serial: missing field `name`",
		UnknownMethod + "  exec-server stub does not implement `no/such` yet",
		"unbound  client must call initialize before using slow methods",
		"inline tp <nil>",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("observed %q", seen)
	}
}

// The end of the connection ends requests that wait, and they do not outlive it.
func TestConnectionEndCancels(t *testing.T) {
	raw(t, DispatcherConfig{}, func(c Connection) {
		exchange(t, c, []string{`{"id":1,"method":"poll","params":{"name":"a","ms":3600000}}`}, nil)
		synctest.Wait()
		c.Close()
	})
}
