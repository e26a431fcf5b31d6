package client_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/server"
)

// wirePeer costs nothing: what is left is the wire.
type wirePeer struct {
	changes.Peer
	n      int
	object tree.Data
}

func (p *wirePeer) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	for _, err := range changes.All(ctx, objects) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *wirePeer) Push(ctx context.Context, _ changes.PushInput, entries changes.Stream[tree.Entry]) (r changes.PushResult, err error) {
	for _, err := range changes.All(ctx, entries) {
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func (p *wirePeer) FetchObjects(context.Context, []tree.Hash) (changes.Stream[tree.Data], error) {
	return repeated(p.n, p.object), nil
}

func (p *wirePeer) FetchChanges(context.Context, changes.FetchQuery) (*changes.Fetch, error) {
	return &changes.Fetch{Entries: repeated(p.n, file(7, "/workspace/src/some/package/file.go", 0o644, p.object))}, nil
}

// repeated is a stream of n times the same.
func repeated[T any](n int, item T) changes.Stream[T] {
	return changes.FromFunc(func(context.Context) (T, error) {
		if n--; n < 0 {
			var none T
			return none, io.EOF
		}
		return item, nil
	}, nil)
}

// wireRuns have runs that print so many pieces of 64 KiB.
type wireRuns struct {
	shell.ListedRuns
	n int
}

type wireEvents struct{ changes.Stream[shell.Event] }

func (e wireEvents) Close() {}

func (r *wireRuns) GetExec(_ context.Context, id string, _ shell.After) (shell.Events, error) {
	return wireEvents{repeated(r.n, shell.Event{ID: id, Seq: 1, Name: shell.Stdout, Data: make([]byte, 64<<10)})}, nil
}

// BenchmarkWorkspaceWire measures what sync/* and shell/* cost on a WebSocket, both ends in
// this program.
func BenchmarkWorkspaceWire(b *testing.B) {
	ctx := context.Background()
	peer, runs := &wirePeer{object: object(tree.ChunkSize, 1)}, new(wireRuns)
	s := serveWorkspace(b, peer, runs)
	endpoint, err := s.srv.Listen(server.EndpointConfig{URL: "ws://127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.srv.Run(serving, endpoint) }()
	defer func() { stop(); <-done }()
	c, err := client.Dial(ctx, endpoint.URL(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	entry := file(7, "/workspace/src/some/package/file.go", 0o644, peer.object)
	for _, bb := range []struct {
		name  string
		bytes int64
		run   func(n int) error
	}{
		{"pushObjects", tree.ChunkSize, func(n int) error { return c.Sync().PushObjects(ctx, repeated(n, peer.object)) }},
		{"fetchObjects", tree.ChunkSize, func(n int) error {
			peer.n = n
			f, err := c.Sync().FetchObjects(ctx, nil)
			if err != nil {
				return err
			}
			return drained(ctx, f, n)
		}},
		{"push", 0, func(n int) error {
			_, err := c.Sync().Push(ctx, changes.PushInput{}, repeated(n, entry))
			return err
		}},
		{"fetchChanges", 0, func(n int) error {
			peer.n = n
			f, err := c.Sync().FetchChanges(ctx, changes.FetchQuery{})
			if err != nil {
				return err
			}
			return drained(ctx, f.Entries, n)
		}},
		{"events", 64 << 10, func(n int) error {
			runs.n = n
			r, err := c.GetExec(ctx, "r", 0)
			if err != nil {
				return err
			}
			if _, err = r.Wait(ctx, io.Discard, nil); errors.Is(err, client.ErrDisposed) {
				err = nil
			}
			return err
		}},
		{"status", 0, func(n int) error {
			for range n {
				if _, err := c.Status(ctx); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(bb.bytes)
			b.ReportAllocs()
			began := time.Now()
			if err := bb.run(b.N); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "items/s")
		})
	}
}

func drained[T any](ctx context.Context, s changes.Stream[T], want int) error {
	n := 0
	for _, err := range changes.All(ctx, s) {
		if err != nil {
			return err
		}
		n++
	}
	if n != want {
		return errors.New("items are missing")
	}
	return nil
}
