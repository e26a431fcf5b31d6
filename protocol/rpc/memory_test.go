package rpc

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
)

func TestMemorySizes(t *testing.T) {
	for n := range leastMemory + 1 {
		if got := MemorySize(n); got != leastMemory {
			t.Fatalf("%d bytes: %d", n, got)
		}
	}
	for n := leastMemory + 1; n < 600<<20; n += n / 37 {
		size := MemorySize(n)
		if size < n || size > n+n/4 {
			t.Fatalf("%d bytes: %d", n, size)
		}
		if MemorySize(size) != size {
			t.Fatalf("%d is rounded up to %d", size, MemorySize(size))
		}
	}
	for _, size := range []int{0, 1, leastMemory, 3 << 19, 24 << 20, 24<<20 + 1} {
		if b := TakeMemory(size); len(b) != 0 || cap(b) != size {
			t.Errorf("want %d, got %d of %d bytes", size, len(b), cap(b))
		}
	}
	KeepMemory(nil)
	KeepMemory(make([]byte, leastMemory+1)) // no size that is asked for
	if b := TakeMemory(MemorySize(leastMemory + 1)); cap(b) != leastMemory/4*5 {
		t.Errorf("got %d bytes", cap(b))
	}
}

// What is kept is used again from any goroutine, and freed once two runs of the garbage
// collector have not seen it used.
func TestShelf(t *testing.T) {
	var s shelf
	_, place := memoryClass(leastMemory)
	first, second := make([]byte, 0, leastMemory), make([]byte, 0, leastMemory)
	same := func(a, b []byte) bool { return cap(a) > 0 && cap(b) > 0 && &a[:1][0] == &b[:1][0] }
	s.keep(first, place)
	s.age()
	s.keep(second, place)
	if got := s.take(place); !same(got, second) {
		t.Error("the latest is not used first")
	}
	if got := s.take(place); !same(got, first) {
		t.Error("what one run has found is gone")
	}
	if s.take(place) != nil {
		t.Error("there is a third")
	}
	s.keep(first, place)
	s.age()
	s.age()
	if s.take(place) != nil || s.watching {
		t.Error("what two runs have found is kept")
	}
	s.keep(first, place)
	s.age()
	s.keep(second, place)
	if s.clear(); s.take(place) != nil {
		t.Error("something is left")
	}
}

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
				size := []int{0, 100, leastMemory, leastMemory + 3*i + k, 3 * leastMemory}[(i+k)%5]
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
	for _, size := range []int{0, 100, leastMemory} {
		var got storedResult
		params := map[string]any{"want": 1, "data": bytes.Repeat([]byte{1}, size), "other": string(bytes.Repeat([]byte("x"), 8*leastMemory))}
		if err := client.Call(t.Context(), "store", params, &got); err != nil || got.Len != size || got.Held > 2*size {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
	}
	for _, params := range []any{
		map[string]any{"want": 1, "data": string(bytes.Repeat([]byte("="), 2*leastMemory))},
		map[string]any{"want": string(bytes.Repeat([]byte("w"), 2*leastMemory))},
	} {
		err := client.Call(t.Context(), "store", params, nil)
		if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeInvalidParams {
			t.Errorf("got %v", err)
		}
	}
}
