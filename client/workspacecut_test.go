package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/execserver"
	"github.com/wsd-dev/wsd/server/workspace"
)

// openWorkspace opens a directory of its own, which stands for itself.
func openWorkspace(t testing.TB) *workspace.Workspace {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "w")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(context.Background(), workspace.Config{Dir: dir, Store: dir + ".db", MountPoint: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
	})
	return ws
}

// Streams of both directions pass through everything that carries messages.
func TestWorkspaceTransports(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (client.Transport, string){
		"ws": func(t *testing.T) (client.Transport, string) {
			ws := openWorkspace(t)
			return newTransport(t, serve(t, execserver.Config{Workspace: ws})), ws.Dir
		},
		"unix": func(t *testing.T) (client.Transport, string) {
			ws := openWorkspace(t)
			socket := filepath.Join(t.TempDir(), "wsd.sock")
			return newTransport(t, serveOn(t, "unix://"+socket, execserver.Config{Workspace: ws})), ws.Dir
		},
		"stdio": func(t *testing.T) (client.Transport, string) {
			dir := filepath.Join(t.TempDir(), "w")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv(serveStdio, "1")
			t.Setenv(serveDir, dir)
			return client.NewCommandTransport([]string{os.Args[0]}, os.Stderr), dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			transport, dir := open(t)
			c := client.Open(transport, nil)
			defer c.Close()
			pushRunFetch(t, c, dir)
		})
	}
}

// pushRunFetch pushes a file, runs a command on it, and fetches what that has made.
func pushRunFetch(t *testing.T, c *client.Client, dir string) {
	t.Helper()
	ctx := t.Context()
	content := make([]byte, tree.ChunkSize+5)
	for i := range content {
		content[i] = byte(rand.N(256))
	}
	var objects []tree.Data
	for rest := content; len(rest) > 0; {
		n := min(len(rest), tree.ChunkSize)
		objects = append(objects, tree.Data{Hash: sha256.Sum256(rest[:n]), Bytes: rest[:n]})
		rest = rest[n:]
	}
	peer := c.Sync()
	if err := peer.PushObjects(ctx, changes.FromSlice(objects)); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Push(ctx, changes.PushInput{SenderRev: 2}, changes.FromSlice([]tree.Entry{file(2, dir+"/in", 0o600, objects...)})); err != nil {
		t.Fatal(err)
	}
	run, err := c.Exec(ctx, client.DurableCommand{Line: "cat in in >out; cat in; echo done >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	if code, err := run.Wait(ctx, &out, &errOut); code != 3 || err != nil || !bytes.Equal(out.Bytes(), content) || errOut.String() != "done\n" {
		t.Errorf("%d, %v, %d bytes, %q", code, err, out.Len(), errOut.String())
	}
	f, err := peer.FetchChanges(ctx, changes.FetchQuery{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := changes.Collect(ctx, f.Entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Path != dir+"/out" {
			continue
		}
		var hashes []tree.Hash
		for _, p := range e.Parts {
			hashes = append(hashes, p.Hash)
		}
		s, err := peer.FetchObjects(ctx, hashes)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for o, err := range changes.All(ctx, s) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, o.Bytes...)
		}
		if !bytes.Equal(got, append(bytes.Clone(content), content...)) {
			t.Errorf("the file that the command made has %d other bytes", len(got))
		}
		return
	}
	t.Errorf("no %s/out among %d entries", dir, len(entries))
}

// dialCut connects through a proxy that ends every connection after at most so many bytes.
func dialCut(t *testing.T, url string, most int) *client.Client {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	proxy := newCutter(t, url, seed, 1<<40, most)
	opts := &client.Options{Reconnect: client.Reconnect{MinDelay: time.Millisecond}}
	for { // the first connections may be cut before they are up
		c, err := client.Dial(t.Context(), proxy.url(), opts)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		if !errors.Is(err, client.ErrTransportClosed) {
			t.Logf("dial: %v", err)
		}
	}
}

// A run is followed through connections that end again and again, and all of its output
// arrives, once.
func TestRunThroughShortConnections(t *testing.T) {
	ws := openWorkspace(t)
	c := dialCut(t, serve(t, execserver.Config{Workspace: ws}), 200_000)
	var run *client.Run
	for run == nil {
		var err error
		run, err = c.Exec(t.Context(), client.DurableCommand{Line: "seq 1 100000; echo last >&2; exit 7"})
		if err != nil && !errors.Is(err, client.ErrMayHaveRun) {
			t.Fatal(err)
		}
	}
	var out, errOut bytes.Buffer
	code, err := run.Wait(t.Context(), &out, &errOut)
	if code != 7 || err != nil || errOut.String() != "last\n" {
		t.Errorf("%d, %v, %q", code, err, errOut.String())
	}
	var want bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintln(&want, i+1)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes arrived, want %d, or they are others", out.Len(), want.Len())
	}
}

// A change stream is read through such connections, each time from behind the last entry.
func TestChangesThroughShortConnections(t *testing.T) {
	peer := memoryPeer(t)
	const count = 8000
	var pushed []tree.Entry
	for i := range int64(count) {
		pushed = append(pushed, tree.Entry{Kind: tree.KindDir, Rev: i + 1, Path: fmt.Sprintf("/d%05d", i), Mode: 0o755, MTime: time.UnixMilli(i)})
	}
	if _, err := peer.Push(t.Context(), changes.PushInput{SenderRev: count}, changes.FromSlice(pushed)); err != nil {
		t.Fatal(err)
	}
	s := serveWorkspace(t, peer, nil)
	c := s.open(t)
	var after tree.Cursor
	seen := make(map[string]bool)
	cuts := 0
	for done := false; !done; {
		f, err := c.Sync().FetchChanges(t.Context(), changes.FetchQuery{After: after})
		if err != nil {
			t.Fatal(err)
		}
		stop := 1 + rand.N(1000)
		for {
			e, err := f.Entries.Next(t.Context())
			if errors.Is(err, io.EOF) {
				done = true
				break
			}
			if err != nil {
				if !errors.Is(err, client.ErrTransportClosed) {
					t.Fatal(err)
				}
				break
			}
			if seen[e.Path] {
				t.Fatalf("%s came twice", e.Path)
			}
			seen[e.Path] = true
			after = changes.After(&e)
			if stop--; stop == 0 {
				cuts++
				s.cut()
			}
		}
		f.Entries.Close(nil)
	}
	if len(seen) != count || cuts == 0 {
		t.Errorf("%d entries with %d cuts, want %d", len(seen), cuts, count)
	}
}
