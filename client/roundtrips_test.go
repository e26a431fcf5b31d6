package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// counted is a Transport that counts the requests of the client by their methods.
type counted struct {
	client.Transport
	mu sync.Mutex
	n  map[string]int
}

func (c *counted) Connect(ctx context.Context) (rpc.Connection, error) {
	conn, err := c.Transport.Connect(ctx)
	return &countedConn{conn, c}, err
}

// take returns the numbers since the last time.
func (c *counted) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = nil
	return n
}

type countedConn struct {
	rpc.Connection
	of *counted
}

func (c *countedConn) Write(ctx context.Context, msg []byte) error {
	var m struct {
		ID     *json.RawMessage
		Method string
	}
	if json.Unmarshal(msg, &m) == nil && m.ID != nil && m.Method != "" {
		c.of.mu.Lock()
		if c.of.n == nil {
			c.of.n = map[string]int{}
		}
		c.of.n[m.Method]++
		c.of.mu.Unlock()
	}
	return c.Connection.Write(ctx, msg)
}

// A call of a Peer is one request over JSON-RPC, however much its streams have.
func TestPeerCallsTakeOneRequest(t *testing.T) {
	for name, objects := range map[string][]tree.Data{
		"small": {object(10, 1)},
		"large": {object(tree.ChunkSize, 3), object(tree.ChunkSize, 4), object(tree.ChunkSize, 5), object(7, 6)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			wire := &counted{Transport: serveWorkspace(t, memoryPeer(t), nil)}
			c := client.Open(wire, nil)
			t.Cleanup(func() { _ = c.Close() })
			if err := c.Connect(ctx); err != nil {
				t.Fatal(err)
			}
			wire.take()
			peer := c.Sync()
			var hashes []tree.Hash
			for _, o := range objects {
				hashes = append(hashes, o.Hash)
			}
			entries := make([]tree.Entry, 0, 1001) // more than goes with a request
			for i := range 1000 {
				entries = append(entries, tree.Entry{Kind: tree.KindDelete, Rev: int64(i + 1), Path: "/w/" + strings.Repeat("gone", 60)})
			}
			entries = append(entries, file(1001, "/w/f", 0o644, objects...))
			for _, step := range []struct {
				method string
				call   func() error
			}{
				{"sync/watermarks", func() error { _, err := peer.Watermarks(ctx, true); return err }},
				{"sync/hasObjects", func() error { _, err := peer.HasObjects(ctx, hashes); return err }},
				{"sync/pushObjects", func() error { return peer.PushObjects(ctx, changes.FromSlice(objects)) }},
				{"sync/push", func() error {
					_, err := peer.Push(ctx, changes.PushInput{SenderRev: 1001}, changes.FromSlice(entries))
					return err
				}},
				{"sync/fetchChanges", func() error {
					f, err := peer.FetchChanges(ctx, changes.FetchQuery{})
					if err == nil {
						_, err = changes.Collect(ctx, f.Entries)
					}
					return err
				}},
				{"sync/fetchObjects", func() error {
					s, err := peer.FetchObjects(ctx, hashes)
					if err == nil {
						_, err = changes.Collect(ctx, s)
					}
					return err
				}},
				{"sync/readEntry", func() error { _, err := peer.ReadEntry(ctx, "/w/f"); return err }},
				{"sync/lost", func() error { _, _, err := peer.Lost(ctx, 0, 10); return err }},
				{"sync/await", func() error { _, err := peer.Await(ctx, -1, 0); return err }},
			} {
				if err := step.call(); err != nil {
					t.Fatalf("%s: %v", step.method, err)
				}
				if diff := cmp.Diff(map[string]int{step.method: 1}, wire.take()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			}
		})
	}
}
