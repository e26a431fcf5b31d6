package computer

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
)

// A world is a computer of fakes behind a server.
type world struct {
	peer     *fakePeer
	runs     *fakeRuns
	computer *Computer
	server   *server.Server
	budget   *rpc.Budget
	url      string // http://...
}

const secret = "0123456789abcdef0123456789abcdef"

func bearer(r *http.Request) error {
	if r.Header.Get("Authorization") != "Bearer "+secret {
		return errors.New("unauthorized")
	}
	return nil
}

func newWorld(t *testing.T, change ...func(*Config, *server.HTTPConfig)) *world {
	t.Helper()
	return newWorldOf(t, 256<<20, change...)
}

// newWorldOf is newWorld with so many bytes of memory.
func newWorldOf(t *testing.T, memory int64, change ...func(*Config, *server.HTTPConfig)) *world {
	t.Helper()
	w := &world{peer: &fakePeer{objects: map[tree.Hash][]byte{}}, runs: newRuns(), budget: rpc.NewBudget(memory)}
	cfg, web := Config{Peer: w.peer, Runs: w.runs, Version: "1.2.3"}, server.HTTPConfig{}
	for _, f := range change {
		f(&cfg, &web)
	}
	w.computer = New(cfg)
	table := rpc.NewTable()
	server.Register(table)
	w.server = server.New(server.Config{Table: table, Budget: w.budget})
	web.Routes = w.computer.Routes(w.server)
	srv := httptest.NewServer(w.server.Handler(web))
	w.url = srv.URL
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		srv.Close()
		if n := w.computer.Sessions(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		eventually(t, "no memory is left in use", func() bool { return w.budget.Used() == 0 })
	})
	return w
}

func guarded(_ *Config, web *server.HTTPConfig) { web.Authorize = bearer }

// socket opens a WebSocket.
func (w *world) socket(t *testing.T, path string) *websocket.Conn {
	t.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.url, "http")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	t.Cleanup(func() { ws.Close() })
	return ws
}

// session opens a session.
func (w *world) session(t *testing.T) *capnweb.Session {
	t.Helper()
	s := capnweb.New(wire.NewTransport(w.socket(t, "/api"), 0), capnweb.Config{})
	t.Cleanup(func() { s.Close() })
	return s
}

// say sends frames as they are.
func say(t *testing.T, ws *websocket.Conn, frames ...string) {
	t.Helper()
	for _, f := range frames {
		if err := ws.WriteMessage(websocket.TextMessage, []byte(f)); err != nil {
			t.Fatal(err)
		}
	}
}

// hear reads a frame.
func hear(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
	kind, msg, err := ws.ReadMessage()
	if err != nil || kind != websocket.TextMessage {
		t.Fatalf("kind %d: %v", kind, err)
	}
	return string(msg)
}

// ask sends one call, the first of its session, and returns what is answered.
func ask(t *testing.T, ws *websocket.Conn, call string) string {
	t.Helper()
	say(t, ws, `["push",["pipeline",0,`+call+`]]`, `["pull",1]`)
	return hear(t, ws)
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
