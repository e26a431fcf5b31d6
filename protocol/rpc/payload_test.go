package rpc

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/bufpool"
)

type store struct{}

type storeParams struct {
	Want byte   `json:"want"`
	Data []byte `json:"data"`
}

// check looks at the payload over and over, and tells how long it is.
func (store) check(_ context.Context, p *storeParams) (*storedResult, error) {
	for range 20 {
		if n := bytes.Count(p.Data, []byte{p.Want}); n != len(p.Data) {
			return nil, errors.New("another request's bytes")
		}
	}
	return &storedResult{len(p.Data), cap(p.Data)}, nil
}

type storedResult struct {
	Len  int `json:"len"`
	Held int `json:"held"`
}

// The memory of payloads is used again, and never while its request is served.
func TestPayloads(t *testing.T) {
	table := NewTable()
	Handle(table, Spec[storeParams]{
		Name: "store", Family: "store", Payload: func(p *storeParams) *[]byte { return &p.Data },
	}, store.check)
	scope := table.NewScope()
	scope.Bind(store{})
	a, b := Pair()
	d := NewDispatcher(scope, DispatcherConfig{})
	server := NewPeer(a, PeerConfig{Handler: dispatching{d}, Account: NewBudget(1 << 30).NewAccount(nil)})
	client := NewPeer(b, PeerConfig{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer client.Close()
	defer server.Close()
	wg.Go(func() { _ = server.Serve(t.Context()) })
	wg.Go(func() { _ = client.Serve(t.Context()) })
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for k := range 20 {
				size := []int{0, 100, bufpool.LeastSize, bufpool.LeastSize + 3*i + k, 3 * bufpool.LeastSize}[(i+k)%5]
				want := byte(20*i + k)
				var got storedResult
				if err := client.Call(t.Context(), "store", &storeParams{want, bytes.Repeat([]byte{want}, size)}, &got); err != nil || got.Len != size {
					t.Errorf("%d bytes: %d, %v", size, got.Len, err)
				}
			}
		})
	}
	calls.Wait()
	// What else is long needs no room in the payload.
	for _, size := range []int{0, 100, bufpool.LeastSize} {
		var got storedResult
		params := map[string]any{"want": 1, "data": bytes.Repeat([]byte{1}, size), "other": string(bytes.Repeat([]byte("x"), 8*bufpool.LeastSize))}
		if err := client.Call(t.Context(), "store", params, &got); err != nil || got.Len != size || got.Held > 2*size {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
	}
	for _, params := range []any{
		map[string]any{"want": 1, "data": string(bytes.Repeat([]byte("="), 2*bufpool.LeastSize))},
		map[string]any{"want": string(bytes.Repeat([]byte("w"), 2*bufpool.LeastSize))},
	} {
		err := client.Call(t.Context(), "store", params, nil)
		if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeInvalidParams {
			t.Errorf("got %v", err)
		}
	}
}
