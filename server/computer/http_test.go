package computer

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/server"
)

// A reply is a response whose body has been read.
type reply struct {
	StatusCode int
	Header     http.Header
}

// do sends a request, with the secret.
func do(t *testing.T, method, url, body string) (reply, string) {
	t.Helper()
	return doWith(t, method, url, body, "Bearer "+secret)
}

func doWith(t *testing.T, method, url, body, authorization string) (reply, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header}, string(b)
}

func TestPages(t *testing.T) {
	w := newWorld(t, func(cfg *Config, _ *server.HTTPConfig) {
		cfg.MountPoint, cfg.Hidden = "/home", []string{"node_modules"}
	})
	w.peer.at.CurrentRev, w.peer.at.Fetch = 7, tree.AtPath(3, "/a")
	for _, c := range []struct {
		method, path string
		status       int
		body         string // "" for any
		allow        string
	}{
		{"GET", "/api", 400, "/api requires a websocket upgrade\n", ""},
		{"HEAD", "/api", 400, "", ""},
		{"GET", "/ws", 400, "/ws requires a websocket upgrade\n", ""},
		{"PUT", "/api", 405, "method not allowed\n", "GET, HEAD, POST"},
		{"POST", "/api", 200, "", ""},
		{"GET", "/api/watermarks", 200, `{"currentRev":7,"pushRev":0,"fetchCursor":{"rev":3,"path":"/a"}}` + "\n", ""},
		{"HEAD", "/api/watermarks", 200, "", ""},
		{"POST", "/api/watermarks", 405, "method not allowed\n", "GET, HEAD"},
		{"GET", "/__computerd/info", 200, `{"mountPoint":"/home","version":"1.2.3","ignore":{"supported":true,"patterns":["**/node_modules"]}}` + "\n", ""},
		{"DELETE", "/__computerd/info", 405, "method not allowed\n", "GET, HEAD"},
		{"GET", "/connect", 405, "method not allowed\n", "POST"},
		{"GET", "/health", 200, "", ""},
		{"HEAD", "/health", 200, "", ""},
		{"GET", "/api/", 404, "", ""},
		{"GET", "/__computerd/other", 404, "", ""},
	} {
		resp, body := do(t, c.method, w.url+c.path, "")
		if resp.StatusCode != c.status || c.body != "" && body != c.body || resp.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, allow %q, %q", c.method, c.path, resp.StatusCode, resp.Header.Get("Allow"), body)
		}
	}
}

// A server that was told of no names to hide says so, whatever /ws hides by default.
func TestInfoWithoutNames(t *testing.T) {
	_, body := do(t, "GET", newWorld(t).url+"/__computerd/info", "")
	if want := `{"mountPoint":"/workspace","version":"1.2.3","ignore":{"supported":true,"patterns":[]}}` + "\n"; body != want {
		t.Errorf("got %s", body)
	}
}

// With a secret nothing but the health is to be had without it, and nobody learns what
// there is.
func TestSecret(t *testing.T) {
	w := newWorld(t, guarded)
	for _, authorization := range []string{"", "Bearer " + secret[1:], "Basic " + secret} {
		for _, path := range []string{"/api", "/ws", "/connect", "/api/watermarks", "/__computerd/info", "/nothing"} {
			for _, method := range []string{"GET", "POST", "PUT"} {
				if resp, _ := doWith(t, method, w.url+path, "", authorization); resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s %s with %q: %d", method, path, authorization, resp.StatusCode)
				}
			}
		}
		if resp, _ := doWith(t, "GET", w.url+"/health", "", authorization); resp.StatusCode != http.StatusOK {
			t.Errorf("health: %d", resp.StatusCode)
		}
		header := http.Header{}
		if authorization != "" {
			header.Set("Authorization", authorization)
		}
		ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.url, "http")+"/api", header)
		if err == nil {
			ws.Close()
			t.Error("let in")
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a WebSocket: %d", resp.StatusCode)
		}
	}
	ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.url, "http")+"/api", http.Header{"Authorization": {"Bearer " + secret}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer ws.Close()
	if got := ask(t, ws, `["sync","readEntry"],["/a"]`); got != `["resolve",1,null]` {
		t.Errorf("got %s", got)
	}
}

// A batch is answered; what it asks for that would be a stream is refused, without effect.
func TestBatch(t *testing.T) {
	w := newWorld(t)
	w.peer.at.CurrentRev = 1
	resp, body := do(t, "POST", w.url+"/api", strings.Join([]string{
		`["push",["pipeline",0,["sync","watermarks"],[]]]`,
		`["push",["pipeline",0,["shell","exec"],[{"command":"touch /x"}]]]`,
		`["push",["pipeline",0,["sync","fetchChanges"],[]]]`,
		`["pipe"]`,
		`["push",["pipeline",0,["sync","push"],[{"senderRev":3,"changes":["readable",4]}]]]`,
		`["stream",["pipeline",4,["write"],[` + wireEntries[0] + `]]]`,
		`["stream",["pipeline",4,["close"],[]]]`,
		`["pull",2]`, `["pull",3]`, `["pull",1]`, `["pull",5]`,
	}, "\n"))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d: %s", resp.StatusCode, body)
	}
	for _, want := range []string{
		`["resolve",1,{"currentRev":1,"pushRev":0,"fetchCursor":{"rev":0,"path":null}}]`,
		`["resolve",5,{"rev":41,"applied":1,"appliedPushCursor":{"rev":3,"path":null}}]`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in\n%s", want, body)
		}
	}
	for _, id := range []string{"2", "3"} {
		if !strings.Contains(body, `["reject",`+id+`,`) || !strings.Contains(body, `{"code":"EPROTOCOL"}`) {
			t.Errorf("call %s is not refused in\n%s", id, body)
		}
	}
	if len(w.runs.requests) != 0 || len(w.peer.queries) != 0 {
		t.Error("what was refused was done")
	}
	if n := w.computer.Sessions(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// The batch beyond MaxBatches is refused, and has room when one is done.
func TestMaxBatches(t *testing.T) {
	w := newWorld(t)
	var bodies []*io.PipeWriter
	answers := make(chan int, MaxBatches)
	for range MaxBatches {
		r, body := io.Pipe()
		bodies = append(bodies, body)
		go func() {
			resp, err := http.Post(w.url+"/api", "text/plain", r)
			if err != nil {
				answers <- 0
				return
			}
			resp.Body.Close()
			answers <- resp.StatusCode
		}()
	}
	eventually(t, "all batches are under way", func() bool { return len(w.computer.batches) == MaxBatches })
	resp, _ := do(t, "POST", w.url+"/api", "")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %d", resp.StatusCode)
	}
	for _, body := range bodies {
		body.Close()
	}
	for range bodies {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("got %d", status)
		}
	}
	if resp, _ := do(t, "POST", w.url+"/api", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// The session beyond MaxSessions is refused, until one ends.
func TestMaxSessions(t *testing.T) {
	w := newWorld(t, func(cfg *Config, _ *server.HTTPConfig) { cfg.MaxSessions = 2 })
	first := w.socket(t, "/api")
	w.socket(t, "/ws")
	_, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.url, "http")+"/api", nil)
	if err == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("got %v", err)
	}
	resp.Body.Close()
	first.Close()
	eventually(t, "the session has ended", func() bool { return w.computer.Sessions() == 1 })
	w.socket(t, "/api")
}

// A request that is no good handshake leaves no session behind.
func TestBadHandshake(t *testing.T) {
	w := newWorld(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Connection", "upgrade")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || w.computer.Sessions() != 0 {
		t.Errorf("%d, and %d sessions", resp.StatusCode, w.computer.Sessions())
	}
}

// closing reads until the WebSocket is closed, and returns the code and the last message.
func closingOf(t *testing.T, ws *websocket.Conn) (code int, last string) {
	t.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		_, msg, err := ws.ReadMessage()
		if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
			return closed.Code, last
		}
		if err != nil {
			t.Fatal(err)
		}
		last = string(msg)
	}
}

// What is no message ends its session, with an abort, and no other.
func TestBadMessages(t *testing.T) {
	w := newWorld(t)
	other := w.socket(t, "/ws")
	for name, send := range map[string]func(*websocket.Conn) error{
		"binary":    func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.BinaryMessage, []byte(`["pull",0]`)) },
		"no JSON":   func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, []byte(`{`)) },
		"no call":   func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, []byte(`["bogus",1]`)) },
		"no export": func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.TextMessage, []byte(`["pull",77]`)) },
	} {
		ws := w.socket(t, "/api")
		if err := send(ws); err != nil {
			t.Fatal(err)
		}
		if code, last := closingOf(t, ws); code != capnweb.CloseCode || !strings.HasPrefix(last, `["abort",["error",`) {
			t.Errorf("%s: closed with %d after %s", name, code, last)
		}
	}
	if got := ask(t, other, `["sync","readEntry"],["/a"]`); got != `["resolve",1,null]` {
		t.Errorf("got %s", got)
	}
}

// A frame of 32 MiB is read, a larger one ends the session, which is told why.
func TestLargeFrames(t *testing.T) {
	w := newWorld(t)
	ws := w.socket(t, "/api")
	frame := func(size int) []byte {
		head, tail := []byte(`["push",["pipeline",0,["sync","nosuch"],["`), []byte(`"]]]`)
		return append(append(head, bytes.Repeat([]byte("a"), size-len(head)-len(tail))...), tail...)
	}
	if err := ws.WriteMessage(websocket.TextMessage, frame(capnweb.MaxMessageBytes)); err != nil {
		t.Fatal(err)
	}
	say(t, ws, `["pull",1]`)
	if got := hear(t, ws); !strings.HasPrefix(got, `["reject",1,`) {
		t.Fatalf("got %.100s", got)
	}
	go func() { _ = ws.WriteMessage(websocket.TextMessage, frame(capnweb.MaxMessageBytes+1)) }()
	want := `["abort",["error","TypeError","Incoming message exceeds maximum size of 33554432 bytes."]]`
	if code, last := closingOf(t, ws); code != capnweb.CloseCode || last != want {
		t.Errorf("closed with %d after %s", code, last)
	}
}

// A client's goodbye, in each of the ways that there are, ends its session without noise.
func TestGoodbyes(t *testing.T) {
	for _, code := range []int{websocket.CloseNormalClosure, websocket.CloseGoingAway, capnweb.CloseCode} {
		var log lockedBuffer
		w := newWorld(t, func(cfg *Config, _ *server.HTTPConfig) { cfg.Logger = log.logger() })
		ws := w.socket(t, "/api")
		if err := ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, "bye")); err != nil {
			t.Fatal(err)
		}
		if got, _ := closingOf(t, ws); got != code {
			t.Errorf("answered with %d", got)
		}
		eventually(t, "the session ended", func() bool { return strings.Contains(log.String(), "session ended") })
		if !strings.Contains(log.String(), "err=<nil>") {
			t.Errorf("%d is logged as %s", code, log.String())
		}
	}
}

// Shutdown ends sessions and batches, and closes what they followed; runs go on.
func TestShutdown(t *testing.T) {
	w := newWorld(t)
	ws := w.socket(t, "/api")
	say(t, ws, `["push",["pipeline",0,["shell","exec"],[{"command":"a","id":"x"}]]]`, `["pull",1]`)
	hear(t, ws)
	hear(t, ws)
	r, body := io.Pipe()
	defer body.Close()
	batch := make(chan error, 1)
	go func() {
		resp, err := http.Post(w.url+"/api", "text/plain", r)
		if err == nil {
			resp.Body.Close()
		}
		batch <- err
	}()
	eventually(t, "the batch is under way", func() bool { return len(w.computer.batches) == 1 })
	if err := w.server.Close(); err != nil {
		t.Error(err)
	}
	if code, last := closingOf(t, ws); code != capnweb.CloseCode || last != `["abort",["error","Error","the server goes away"]]` {
		t.Errorf("closed with %d after %s", code, last)
	}
	if w.runs.run("x").followed() {
		t.Error("the run is still followed")
	}
	if w.runs.run("x").count() != 0 {
		t.Error("the run was ended")
	}
	<-batch
}

// A body that takes too long is given up.
func TestReadWithin(t *testing.T) {
	failed := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer readWithin(r.Context(), w, time.Millisecond)()
		_, err := io.ReadAll(r.Body)
		failed <- err
	}))
	defer srv.Close()
	body, never := io.Pipe()
	go func() {
		if resp, err := http.Post(srv.URL, "text/plain", body); err == nil {
			resp.Body.Close()
		}
	}()
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	never.Close()
}
