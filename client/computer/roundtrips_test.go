package computer

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// counted is a Transport that counts the calls that await an answer, without those that carry
// the items of streams: several of those are under way at once.
type counted struct {
	capnweb.Transport
	mu sync.Mutex
	n  int
}

func (c *counted) Write(ctx context.Context, msg []byte) error {
	if bytes.HasPrefix(msg, []byte(`["push",`)) {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
	return c.Transport.Write(ctx, msg)
}

func (c *counted) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = 0
	return n
}

// A call of a Peer is one call over capnweb, however much its streams have.
func TestPeerCallsTakeOneCall(t *testing.T) {
	d, err := newDialer(newWorld(t).web.URL, &Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := d.dial(t.Context(), d.targets[0])
	if err != nil {
		t.Fatal(err)
	}
	calls := &counted{Transport: wire.NewTransport(ws, 0)}
	c := New(calls, nil)
	t.Cleanup(func() { c.Close() })
	datas, parts := content(big)
	var hashes []tree.Hash
	for _, p := range parts {
		hashes = append(hashes, p.Hash)
	}
	ctx := within(t)
	for _, step := range []struct {
		name string
		call func() error
	}{
		{"watermarks", func() error { _, err := c.Watermarks(ctx, true); return err }},
		{"hasObjects", func() error { _, err := c.HasObjects(ctx, hashes); return err }},
		{"pushObjects", func() error { return c.PushObjects(ctx, changes.FromSlice(datas)) }},
		{"push", func() error {
			_, err := c.Push(ctx, changes.PushInput{SenderRev: 5}, changes.FromSlice(entries))
			return err
		}},
		{"fetchChanges", func() error {
			f, err := c.FetchChanges(ctx, changes.FetchQuery{Ignore: []string{}})
			if err == nil {
				_, err = changes.Collect(ctx, f.Entries)
			}
			return err
		}},
		{"fetchObjects", func() error {
			s, err := c.FetchObjects(ctx, hashes)
			if err == nil {
				_, err = changes.Collect(ctx, s)
			}
			return err
		}},
		{"readEntry", func() error { _, err := c.ReadEntry(ctx, "/workspace/big"); return err }},
	} {
		calls.take()
		if err := step.call(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := calls.take(); got != 1 {
			t.Errorf("%s took %d calls", step.name, got)
		}
	}
}
