package capnweb

import (
	"context"
	"io"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

func benchSessions(b *testing.B) *Stub {
	server, conn := rpc.Pair()
	s := New(server, Config{Main: newService().main})
	c := New(conn, Config{})
	b.Cleanup(func() { c.Close(); s.Close() })
	b.ReportAllocs()
	return c.Main()
}

func BenchmarkCall(b *testing.B) {
	main := benchSessions(b)
	for b.Loop() {
		var n int
		if err := main.Call(b.Context(), &n, "add", 1, 2); err != nil {
			b.Fatal(err)
		}
	}
}

// Objects of 512 KiB, as they are fetched and pushed.
func BenchmarkObjects(b *testing.B) {
	main := benchSessions(b)
	chunk := make([]byte, 512<<10)
	b.SetBytes(int64(len(chunk)))
	var sum int
	left := -1
	stream := NewStream(func(context.Context) (any, error) {
		if left == 0 {
			return nil, io.EOF
		}
		left--
		return struct {
			Hash  []byte `json:"hash"`
			Bytes []byte `json:"bytes"`
		}{chunk[:32], chunk}, nil
	}, nil)
	var back Stream[struct {
		Bytes []byte `json:"bytes"`
	}]
	if err := main.Call(b.Context(), &back, "echo", stream); err != nil { // each goes there and back
		b.Fatal(err)
	}
	for b.Loop() {
		item, err := back.Next(b.Context())
		if err != nil || len(item.Bytes) != len(chunk) {
			b.Fatal(err)
		}
		sum++
	}
	back.Cancel(nil)
}

// Entries as a listing sends them.
func BenchmarkEntries(b *testing.B) {
	main := benchSessions(b)
	type chunk struct {
		Hash []byte `json:"hash"`
		Size int    `json:"size"`
	}
	type change struct {
		Kind   string  `json:"kind"`
		Rev    int     `json:"rev"`
		Path   string  `json:"path"`
		Mode   int     `json:"mode"`
		Mtime  int64   `json:"mtime"`
		Size   int     `json:"size"`
		Chunks []chunk `json:"chunks"`
	}
	one := change{"file", 9, "/workspace/src/a.txt", 420, 1795814700200, 5, []chunk{{make([]byte, 32), 5}}}
	var back Stream[change]
	stream := NewStream(func(context.Context) (change, error) { return one, nil }, nil)
	if err := main.Call(b.Context(), &back, "echo", stream); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := back.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	back.Cancel(nil)
}
