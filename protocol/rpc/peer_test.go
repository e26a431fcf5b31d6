package rpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// echo serves the methods of these tests.
type echo struct{}

type echoParams struct {
	Text string `json:"text"`
	Data []byte `json:"data" wire:"optional"`
}

func (echo) say(_ context.Context, p *echoParams) (*echoParams, error) {
	if p.Text == "fail" {
		return nil, &protocol.Error{Code: protocol.CodePreconditionFailed, Message: "told to", Data: protocol.PreconditionData{Kind: "preconditionFailed"}}
	}
	return p, nil
}

type serverHandler struct{ *rpc.Dispatcher }

func (serverHandler) HandleNotification(context.Context, string, []byte) error { return nil }

// serve runs an echo server on one end of a Pair and returns a client on the other.
func serve(t *testing.T) *rpc.Peer {
	t.Helper()
	table := rpc.NewTable()
	rpc.Handle(table, rpc.Spec[echoParams]{Name: "say", Family: "echo"}, echo.say)
	scope := table.NewScope()
	scope.Bind(echo{})
	a, b := rpc.Pair()
	server := rpc.NewPeer(a, rpc.PeerConfig{Handler: serverHandler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}})
	client := rpc.NewPeer(b, rpc.PeerConfig{})
	for _, p := range []*rpc.Peer{server, client} {
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Serve(context.Background()) }()
		t.Cleanup(func() { p.Close(); <-done })
	}
	return client
}

func TestCall(t *testing.T) {
	client := serve(t)
	ctx := t.Context()
	var got echoParams
	if err := client.Call(ctx, "say", &echoParams{Text: "hi\n\x00é", Data: []byte{0, 255, 3}}, &got); err != nil {
		t.Fatal(err)
	}
	if got.Text != "hi\n\x00é" || string(got.Data) != "\x00\xff\x03" {
		t.Errorf("got %+v", got)
	}
	err := client.Call(ctx, "say", &echoParams{Text: "fail"}, &got)
	failure, ok := errors.AsType[*protocol.Error](err)
	if !ok || failure.Code != protocol.CodePreconditionFailed || failure.Data == nil {
		t.Errorf("got %#v", err)
	}
	err = client.Call(ctx, "no/such", nil, nil)
	if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeMethodNotFound {
		t.Errorf("got %v", err)
	}
	client.Close()
	if err := client.Call(ctx, "say", &echoParams{Text: "x"}, &got); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func BenchmarkCall(b *testing.B) {
	table := rpc.NewTable()
	rpc.Handle(table, rpc.Spec[echoParams]{Name: "say", Family: "echo"}, echo.say)
	scope := table.NewScope()
	scope.Bind(echo{})
	x, y := rpc.Pair()
	server := rpc.NewPeer(x, rpc.PeerConfig{Handler: serverHandler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}})
	client := rpc.NewPeer(y, rpc.PeerConfig{})
	go server.Serve(context.Background())
	go client.Serve(context.Background())
	defer server.Close()
	defer client.Close()
	for b.Loop() {
		var got echoParams
		if err := client.Call(b.Context(), "say", &echoParams{Text: "hi"}, &got); err != nil {
			b.Fatal(err)
		}
	}
}
