package fs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// object is the parameters of a request.
type object = map[string]any

// client is the client of a Service, and a directory to work in.
type client struct {
	t     *testing.T
	peer  *rpc.Peer
	dir   string // what W is
	uri   string // what U is
	notes chan note
	end   func() // ends the connection and waits for the Service to close
}

type note struct{ method, params string }

type serverHandler struct{ *rpc.Dispatcher }

func (serverHandler) HandleNotification(context.Context, string, []byte) error { return nil }

type clientHandler struct{ notes chan note }

func (clientHandler) HandleRequest(_ context.Context, req *rpc.Request) {
	req.ReplyInline(nil, errors.New("no requests, please"))
}

func (h clientHandler) HandleNotification(_ context.Context, method string, params []byte) error {
	h.notes <- note{method, string(params)}
	return nil
}

// serve serves fs/* on a connection in memory, and returns the other end and a
// function that ends it and waits for the Service to close.
func serve(t *testing.T, cfg fs.Config) (rpc.Connection, func()) {
	t.Helper()
	return serveWith(t, cfg, nil)
}

// serveWith is serve with an account of memory.
func serveWith(t *testing.T, cfg fs.Config, account *rpc.Account) (rpc.Connection, func()) {
	t.Helper()
	if cfg.Host == nil {
		cfg.Host = fs.NewHost()
	}
	table := rpc.NewTable()
	fs.Register(table)
	scope := table.NewScope()
	a, b := rpc.Pair()
	dispatcher := rpc.NewDispatcher(scope, rpc.DispatcherConfig{})
	server := rpc.NewPeer(a, rpc.PeerConfig{Handler: serverHandler{dispatcher}, Account: account})
	service := fs.NewService(server, cfg)
	scope.Bind(service)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ctx) }()
	end := sync.OnceFunc(func() {
		server.Close()
		cancel()
		<-done
		dispatcher.Wait()
		if err := service.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	t.Cleanup(end)
	return b, end
}

// newClient serves fs/* and returns a client.
func newClient(t *testing.T, cfg fs.Config) *client {
	t.Helper()
	return newClientWith(t, cfg, nil)
}

// newClientWith is newClient with an account of memory.
func newClientWith(t *testing.T, cfg fs.Config, account *rpc.Account) *client {
	t.Helper()
	conn, end := serveWith(t, cfg, account)
	notes := make(chan note, 4096)
	peer := rpc.NewPeer(conn, rpc.PeerConfig{Handler: clientHandler{notes}})
	done := make(chan struct{})
	go func() { defer close(done); _ = peer.Serve(context.Background()) }()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, peer: peer, dir: dir, uri: fileuri.Format(dir), notes: notes}
	c.end = sync.OnceFunc(func() {
		peer.Close()
		<-done
		end()
	})
	t.Cleanup(c.end)
	return c
}

// raw is a result as JSON.
type raw struct{ text string }

func (r *raw) UnmarshalWire(b []byte) error {
	r.text = string(b)
	return nil
}

// call calls a method and returns its result as JSON, or its error as "code message".
// $U in strings is the URI of the client's directory; the results say $U and $W.
func (c *client) call(method string, params object) string {
	c.t.Helper()
	for key, value := range params {
		switch v := value.(type) {
		case string:
			params[key] = strings.ReplaceAll(v, "$U", c.uri)
		case []string:
			for i := range v {
				v[i] = strings.ReplaceAll(v[i], "$U", c.uri)
			}
		}
	}
	var result raw
	err := c.peer.Call(c.t.Context(), method, params, &result)
	text := result.text
	if err != nil {
		failure, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			c.t.Fatalf("%s: %v", method, err)
		}
		text = fmt.Sprintf("%d %s", failure.Code, failure.Message)
		if data, ok := failure.Data.(protocol.RawData); ok {
			text += " " + string(data)
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, c.uri, "$U"), c.dir, "$W")
}

// want calls a method and compares the result with want, in which one * stands for
// any text.
func (c *client) want(want, method string, params object) {
	c.t.Helper()
	got := c.call(method, params)
	head, tail, open := strings.Cut(want, "*")
	if got == want || open && strings.HasPrefix(got, head) && strings.HasSuffix(got, tail) && len(got) >= len(head)+len(tail) {
		return
	}
	c.t.Errorf("%s %v\n got %s\nwant %s", method, params, got, want)
}

// result calls a method that must succeed and decodes its result.
func result[R any](c *client, method string, params object) R {
	c.t.Helper()
	var out R
	text := c.call(method, params)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		c.t.Fatalf("%s %v: %s", method, params, text)
	}
	return out
}

// path is the path of a name in the client's directory.
func (c *client) path(name string) string { return filepath.Join(c.dir, name) }

func (c *client) mkdir(name string) {
	c.t.Helper()
	if err := os.MkdirAll(c.path(name), 0o777); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) put(name, data string) {
	c.t.Helper()
	c.mkdir(filepath.Dir(name))
	if err := os.WriteFile(c.path(name), []byte(data), 0o666); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) link(target, name string) {
	c.t.Helper()
	if err := os.Symlink(target, c.path(name)); err != nil {
		c.t.Fatal(err)
	}
}

// content is that of a file, or its error.
func (c *client) content(name string) string {
	b, err := os.ReadFile(c.path(name))
	if err != nil {
		return "error: " + err.Error()
	}
	return string(b)
}

// files lists all that is below a name, with the text of links.
func (c *client) files(name string) string {
	c.t.Helper()
	var out []string
	root := c.path(name)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir():
			rel += "/"
		case d.Type()&os.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			rel += "->" + target
		}
		out = append(out, rel)
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func (c *client) wantFiles(name, want string) {
	c.t.Helper()
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(c.files(name))); diff != "" {
		c.t.Errorf("below %q (-want +got):\n%s", name, diff)
	}
}
