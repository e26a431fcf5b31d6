package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// listen runs the world's server on a loopback port and returns its address.
func (w *world) listen(cfg HTTPConfig) string {
	w.t.Helper()
	e, err := w.Listen(EndpointConfig{HTTP: cfg})
	if err != nil {
		w.t.Fatal(err)
	}
	w.run(e)
	return strings.TrimPrefix(e.URL(), "ws://")
}

// run serves endpoints until the test ends.
func (w *world) run(endpoints ...*Endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, endpoints...) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
}

// webSocket connects over a real WebSocket.
func webSocket(t *testing.T, addr string) *client {
	t.Helper()
	ws, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	conn := wsconn.New(ws, wsconn.Config{})
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn}
}

const upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"

// answer is an HTTP response.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends one HTTP request as it stands.
func ask(t *testing.T, addr, head string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	line, headers, _ := strings.Cut(head, "\r\n")
	if _, err := fmt.Fprintf(conn, "%s\r\nHost: 127.0.0.1\r\n%s\r\n", line, headers); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(line, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := answer{status: resp.StatusCode, header: resp.Header}
	if got.status != http.StatusSwitchingProtocols {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		got.body = string(body)
	}
	return got
}

// Statuses and bodies are those of codex exec-server 0.171.0, but for the pages it
// lacks.
func TestHTTP(t *testing.T) {
	w := newWorld(t, Config{})
	open := w.listen(HTTPConfig{})
	guarded := w.listen(HTTPConfig{Authorize: func(r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer tok" {
			return errors.New("missing websocket bearer token")
		}
		return nil
	}, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") })})

	for _, tc := range []struct {
		name, addr, head string
		status           int
		body             string
	}{
		{"ready", open, "GET /readyz HTTP/1.1\r\n", 200, ""},
		{"ready by HEAD", open, "HEAD /readyz HTTP/1.1\r\n", 200, ""},
		{"ready with a query", open, "GET /readyz?x HTTP/1.1\r\n", 200, ""},
		{"ready by POST", open, "POST /readyz HTTP/1.1\r\n", 405, ""},
		{"ready without authorization", guarded, "GET /readyz HTTP/1.1\r\n", 200, ""},
		{"alive", guarded, "GET /healthz HTTP/1.1\r\n", 200, ""},
		{"health by DELETE", open, "DELETE /health HTTP/1.1\r\n", 405, ""},
		{"health without authorization", guarded, "GET /health HTTP/1.1\r\n", 200, `{"status":"ok"}` + "\n"},
		{"metrics disabled", open, "GET /metrics HTTP/1.1\r\n", 404, ""},
		{"metrics", guarded, "GET /metrics HTTP/1.1\r\nAuthorization: Bearer tok\r\n", 200, "metrics"},
		{"metrics without authorization", guarded, "GET /metrics HTTP/1.1\r\n", 401, "missing websocket bearer token"},

		{"no upgrade", open, "GET / HTTP/1.1\r\n", 400, "Connection header did not include 'upgrade'"},
		{"no Upgrade header", open, "GET / HTTP/1.1\r\nConnection: upgrade\r\n", 400, "`Upgrade` header did not include 'websocket'"},
		{"no key", open, "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n", 400, "`Sec-WebSocket-Key` header missing"},
		{"other version", open, "GET / HTTP/1.1\r\n" + strings.Replace(upgrade, "13", "8", 1), 400, "`Sec-WebSocket-Version` header did not include '13'"},
		{"HTTP/1.0", open, "GET / HTTP/1.0\r\n" + upgrade, 426, "WebSocket request couldn't be upgraded since no upgrade state was present"},
		{"POST", open, "POST / HTTP/1.1\r\n" + upgrade, 405, "Request method must be `GET`"},
		{"HEAD", open, "HEAD / HTTP/1.1\r\n", 405, ""},
		{"OPTIONS of everything", open, "OPTIONS * HTTP/1.1\r\n", 404, ""},
		{"another path", open, "GET /nope HTTP/1.1\r\n" + upgrade, 404, ""},
		{"a longer path", open, "GET /readyz/ HTTP/1.1\r\n", 404, ""},
		{"upgrade", open, "GET / HTTP/1.1\r\n" + upgrade, 101, ""},
		{"upgrade with a query", open, "GET /?a=b HTTP/1.1\r\n" + upgrade, 101, ""},
		{"offers are passed over", open, "GET / HTTP/1.1\r\n" + upgrade + "Sec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Extensions: permessage-deflate\r\n", 101, ""},

		{"Origin", open, "GET / HTTP/1.1\r\nOrigin: https://page.example\r\n" + upgrade, 403, ""},
		{"empty Origin", open, "GET / HTTP/1.1\r\nOrigin:\r\n" + upgrade, 403, ""},
		{"matching Origin", open, "GET / HTTP/1.1\r\nOrigin: http://127.0.0.1\r\n" + upgrade, 403, ""},
		{"Origin before routing", open, "GET /nope HTTP/1.1\r\nOrigin: null\r\n", 403, ""},
		{"Origin on ready", open, "GET /readyz HTTP/1.1\r\nOrigin: null\r\n", 403, ""},
		{"Origin before authorization", guarded, "GET / HTTP/1.1\r\nOrigin: null\r\n" + upgrade, 403, ""},

		{"unauthorized", guarded, "GET / HTTP/1.1\r\n" + upgrade, 401, "missing websocket bearer token"},
		{"authorized", guarded, "GET / HTTP/1.1\r\nAuthorization: Bearer tok\r\n" + upgrade, 101, ""},
		{"no upgrade comes before authorization", guarded, "GET / HTTP/1.1\r\n", 400, "Connection header did not include 'upgrade'"},
		{"routing comes before authorization", guarded, "GET /nope HTTP/1.1\r\n", 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ask(t, tc.addr, tc.head)
			if got.status != tc.status || got.body != tc.body {
				t.Errorf("got %d %q, want %d %q", got.status, got.body, tc.status, tc.body)
			}
			if got.body != "" && !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") && tc.body[0] != '{' {
				t.Errorf("content type %q", got.header.Get("Content-Type"))
			}
			if tc.status == 405 && tc.head[:5] == "POST " && strings.Contains(tc.head, "readyz") && got.header.Get("Allow") != "GET,HEAD" {
				t.Errorf("allow: %q", got.header.Get("Allow"))
			}
			for _, h := range []string{"Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions"} {
				if offer := got.header.Get(h); offer != "" {
					t.Errorf("%s: %s was agreed on", h, offer)
				}
			}
		})
	}
}

func TestHealth(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{Version: "1.2.3", Processes: func() int { return 7 }})
	webSocket(t, addr).open("")
	gone := webSocket(t, addr)
	gone.open("")
	gone.conn.Close()
	eventually(t, "the session is detached", func() bool {
		_, detached := w.sessions.count()
		return detached == 1
	})
	body := ask(t, addr, "GET /health HTTP/1.1\r\n").body
	if !strings.HasPrefix(body, `{"status":"ok","version":"1.2.3","uptimeSeconds":`) ||
		!strings.Contains(body, `"sessions":{"attached":1,"detached":1},"processes":7}`) {
		t.Errorf("got %s", body)
	}
}

func TestDraining(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	c := webSocket(t, addr)
	c.open("")
	hang := make(chan struct{})
	w.process(0).onClose = func() { <-hang }
	done := make(chan error, 1)
	go func() { done <- w.Shutdown(context.Background()) }()
	if _, err := c.conn.Read(t.Context()); !errors.Is(err, io.EOF) { // 1001 is an orderly end
		t.Errorf("read: %v", err)
	}
	for head, want := range map[string]int{
		"GET /readyz HTTP/1.1\r\n":     503,
		"GET /healthz HTTP/1.1\r\n":    200,
		"GET /health HTTP/1.1\r\n":     503,
		"GET / HTTP/1.1\r\n" + upgrade: 503,
	} {
		if got := ask(t, addr, head); got.status != want {
			t.Errorf("%q: %d %q, want %d", head, got.status, got.body, want)
		}
	}
	close(hang)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTooManyWebSockets(t *testing.T) {
	w := newWorld(t, Config{MaxConnections: 2})
	addr := w.listen(HTTPConfig{})
	a, b := webSocket(t, addr), webSocket(t, addr)
	a.open("")
	got := ask(t, addr, "GET / HTTP/1.1\r\n"+upgrade)
	if got.status != 503 || got.body != "too many connections" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %q", got.status, got.body)
	}
	b.open("")
	a.ping()
}

// C-017: ids come back as they were sent.
func TestC017RequestIDs(t *testing.T) {
	w := newWorld(t, Config{})
	c := webSocket(t, w.listen(HTTPConfig{}))
	c.open("")
	const request = `{"id":%s,"method":"fs/getMetadata","params":{"path":%q}}`
	ids := []string{"9007199254740993", "-9223372036854775808", "9223372036854775807", "0", "-1", `"1"`, "1", `""`, `"a\u0000b"`}
	for _, id := range ids { // all at the same time
		c.send(fmt.Sprintf(request, id, id))
	}
	got := map[string]bool{}
	for range ids {
		got[c.receive()] = true
	}
	for _, id := range ids {
		if want := fmt.Sprintf(`{"id":%s,"result":{"path":%q}}`, id, id); !got[strings.ReplaceAll(want, `\\u0000`, `\\u0000`)] {
			t.Errorf("no answer %s in %v", want, got)
		}
	}
	for _, id := range []string{"18446744073709551616", "9223372036854775808", "1.5", "1.0", "1e3", "null", "true", "{}", "[1]", `1,"id":2`} {
		c.send(fmt.Sprintf(request, id, "x"))
		c.wantError("-1", protocol.CodeInvalidRequest)
	}
	c.ping()
}

// C-018: malformed and unexpected messages are each answered once, and cost nothing
// else.
func TestC018Malformed(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	c := webSocket(t, addr)
	c.send(`{"id":0,"method":"fs/getMetadata","params":{"path":"p"}}`)
	c.wantError("0", protocol.CodeInvalidRequest)
	c.open("")
	for _, tc := range []struct {
		msg, id string
		code    protocol.Code
	}{
		{`{"id":1,"method":"no/such"}`, "1", protocol.CodeMethodNotFound},
		{`{"id":2,"method":"process/start","params":[]}`, "2", protocol.CodeInvalidParams},
		{`{"id":3,"method":"process/start","params":{"processId":7}}`, "3", protocol.CodeInvalidParams},
		{`{"method":"process/terminate","params":{}}`, "-1", protocol.CodeInvalidRequest},
		{`{"id":4,"result":{}}`, "-1", protocol.CodeInvalidRequest},
		{`{"id":5}`, "5", protocol.CodeInvalidRequest},
		{`[]`, "-1", protocol.CodeInvalidRequest},
		{`[{"id":6,"method":"fs/getMetadata","params":{"path":"p"}}]`, "-1", protocol.CodeInvalidRequest},
		{`{`, "-1", protocol.CodeInvalidRequest},
		{``, "-1", protocol.CodeInvalidRequest},
		{`null`, "-1", protocol.CodeInvalidRequest},
		{strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "-1", protocol.CodeInvalidRequest},
		{`{"id":7,"method":"initialize","params":{"clientName":"again"}}`, "7", protocol.CodeInvalidRequest},
		{`{"id":8,"method":"fs/getMetadata","params":{"path":"p"}}{"id":9}`, "-1", protocol.CodeInvalidRequest},
		{`{"id":1,"id":1,"method":"fs/getMetadata","params":{"path":"p"}}`, "-1", protocol.CodeInvalidRequest},
		{`{"id":10,"method":"fs/getMetadata","params":{"path":"p","path":"q"}}`, "-1", protocol.CodeInvalidRequest},
		{`{"id":11,"method":"fs/getMetadata","params":{"path":"p"},"trace":5}`, "11", protocol.CodeInvalidRequest},
		{`{"id":12,"method":5}`, "12", protocol.CodeInvalidRequest},
		{"not json", "-1", protocol.CodeInvalidRequest},
	} {
		c.send(tc.msg)
		c.wantError(tc.id, tc.code)
	}
	c.ping()

	// The text names the client, as the original's does.
	c.send("{oops")
	prefix := "failed to parse websocket JSON-RPC message from exec-server websocket 127.0.0.1:"
	if text := c.wantError("-1", protocol.CodeInvalidRequest); !strings.HasPrefix(text, prefix) {
		t.Errorf("got %q", text)
	}
	webSocket(t, addr).open("")
}
