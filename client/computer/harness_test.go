package computer

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/eventlog/eventlogtest"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/computer"
)

// patience bounds every wait of these tests. It is for a loaded machine.
const patience = 60 * time.Second

const secret = "0123456789abcdef0123456789abcdef"

// A world is a workspace without a disk, and a shell, at a computer's addresses.
type world struct {
	forest *tree.Forest
	tree   *tree.Tree
	peer   *changes.Server
	shell  *shell.Shell
	server *server.Server
	web    *httptest.Server
	dir    string // where commands run
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOf(t, func(p changes.Peer) changes.Peer { return p })
}

// newWorldOf is newWorld with another peer in place of the workspace's.
func newWorldOf(t testing.TB, peer func(changes.Peer) changes.Peer) *world {
	t.Helper()
	w := &world{forest: tree.New(tree.NewMemory(), tree.Config{}), dir: t.TempDir()}
	var err error
	if w.tree, err = w.forest.Tree(t.Context(), tree.DefaultName); err != nil {
		t.Fatal(err)
	}
	w.peer = changes.New(changes.Config{Workspace: changes.Plain(w.forest, w.tree), SpoolDir: t.TempDir()})
	rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: new(eventlogtest.Memory)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	w.shell, err = shell.New(shell.Config{Recorder: rec, Dir: func(cwd string) (string, error) { return w.dir + "/" + cwd, nil }})
	if err != nil {
		t.Fatal(err)
	}
	table := rpc.NewTable()
	server.Register(table)
	w.server = server.New(server.Config{Table: table})
	c := computer.New(computer.Config{Peer: peer(w.peer), Runs: w.shell})
	w.web = httptest.NewServer(w.server.Handler(server.HTTPConfig{
		Authorize: func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer "+secret {
				return errors.New("unauthorized")
			}
			return nil
		},
		Routes: c.Routes(w.server),
	}))
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Errorf("shut down: %v", err)
		}
		w.web.Close()
		if err := w.shell.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// client dials the computer.
func (w *world) client(t testing.TB) *Client {
	t.Helper()
	c, err := Dial(t.Context(), w.web.URL, &Options{Secret: secret, ConnectTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// cuttable dials the computer over a connection that can be cut.
func (w *world) cuttable(t testing.TB) (c *Client, cut func() error) {
	t.Helper()
	d, err := newDialer(w.web.URL, &Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := d.dial(t.Context(), d.targets[0])
	if err != nil {
		t.Fatal(err)
	}
	c = New(wire.NewTransport(ws, 0), nil)
	t.Cleanup(func() { c.Close() })
	return c, ws.NetConn().Close
}

// within is a context for a wait.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
