package computer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/server"
)

// A host is what a computer dials.
type host struct {
	url     string
	healthy atomic.Bool
	asked   atomic.Int32                  // for its health
	onAsked atomic.Pointer[chan struct{}] // gets a token then
	came    chan *http.Request
	sockets chan *websocket.Conn
	refuse  atomic.Bool
}

func newHost(t *testing.T) *host {
	h := &host{came: make(chan *http.Request, 8), sockets: make(chan *websocket.Conn, 8)}
	h.healthy.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			h.asked.Add(1)
			if tell := h.onAsked.Load(); tell != nil {
				*tell <- struct{}{}
			}
			if !h.healthy.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return
		}
		h.came <- r
		if h.refuse.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err == nil {
			h.sockets <- ws
		}
	}))
	t.Cleanup(srv.Close)
	h.url = srv.URL
	return h
}

func (w *world) connect(t *testing.T, body any) (reply, string) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, "POST", w.url+"/connect", string(b))
}

// serves checks that the computer is at the other end.
func serves(t *testing.T, ws *websocket.Conn) *capnweb.Session {
	t.Helper()
	s := capnweb.New(wire.NewTransport(ws, 0), capnweb.Config{})
	t.Cleanup(func() { s.Close() })
	if err := s.Main().Call(t.Context(), nil, "sync.watermarks"); err != nil {
		t.Fatal(err)
	}
	return s
}

// The host is dialled at the addresses of either form of the body, with the secret that
// the request had, and answered at once.
func TestConnect(t *testing.T) {
	w, h := newWorld(t, guarded), newHost(t)
	ws := "ws" + strings.TrimPrefix(h.url, "http")
	for _, c := range []struct {
		body map[string]any
		path string
	}{
		{map[string]any{"base": h.url, "health": "/health", "api": "/api", "healthTimeoutMs": 10_000}, "/api"},
		{map[string]any{"base": h.url + "/below//", "health": "/h", "api": "/deep/api"}, "/below/deep/api"},
		{map[string]any{"url": h.url, "healthTimeoutMs": 10_000}, "/ws"},
		{map[string]any{"url": h.url + "/"}, "/ws"},
	} {
		resp, body := w.connect(t, c.body)
		if want := `{"ok":true,"ws":"` + ws + c.path + `"}` + "\n"; resp.StatusCode != http.StatusOK || body != want {
			t.Fatalf("%v: %d, %s, want %s", c.body, resp.StatusCode, body, want)
		}
		req := <-h.came
		if req.URL.Path != c.path || req.Header.Get("Authorization") != "Bearer "+secret || req.Header.Get("Origin") != "" {
			t.Errorf("%v: %s with %v", c.body, req.URL.Path, req.Header)
		}
		serves(t, <-h.sockets).Close()
	}
}

// A host that was dialled at /ws is a seed client, whatever its address begins with.
func TestF11HiddenNamesOfAHost(t *testing.T) {
	w, h := newWorld(t), newHost(t)
	for i, c := range []struct {
		body map[string]any
		want []string
	}{
		{map[string]any{"base": h.url + "/ws", "health": "/health", "api": "/api"}, []string{}},
		{map[string]any{"base": h.url + "/below", "health": "/health", "api": "/ws"}, []string{"node_modules"}},
		{map[string]any{"url": h.url}, []string{"node_modules"}},
	} {
		w.peer.offers = listOf[tree.Entry]()
		w.connect(t, c.body)
		s := serves(t, <-h.sockets)
		var got wire.FetchResult
		if err := s.Main().Call(t.Context(), &got, "sync.fetchChanges"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, w.peer.queries[i].Ignore); diff != "" {
			t.Errorf("%v: %s", c.body, diff)
		}
	}
}

func TestBadConnects(t *testing.T) {
	w := newWorld(t)
	good := func(change map[string]any) map[string]any {
		body := map[string]any{"base": "http://127.0.0.1:1", "health": "/health", "api": "/api", "healthTimeoutMs": 1}
		for k, v := range change {
			body[k] = v
		}
		return body
	}
	for name, body := range map[string]any{
		"nothing":               map[string]any{},
		"no object":             "http://127.0.0.1:1",
		"a number":              good(map[string]any{"base": 5}),
		"another scheme":        good(map[string]any{"base": "ftp://127.0.0.1:1"}),
		"a WebSocket":           good(map[string]any{"base": "ws://127.0.0.1:1"}),
		"a file":                good(map[string]any{"base": "file:///etc/passwd"}),
		"no host":               good(map[string]any{"base": "http://"}),
		"a user":                good(map[string]any{"base": "http://user:pw@127.0.0.1:1"}),
		"a query":               good(map[string]any{"base": "http://127.0.0.1:1?x"}),
		"an address that ends":  good(map[string]any{"base": "http://127.0.0.1:1#x"}),
		"a relative health":     good(map[string]any{"health": "health"}),
		"another host's health": good(map[string]any{"health": "//example.com/health"}),
		"a whole health":        good(map[string]any{"health": "http://example.com/health"}),
		"a health elsewhere":    good(map[string]any{"health": `/\example.com`}),
		"no API":                good(map[string]any{"api": nil}),
		"another host's API":    good(map[string]any{"api": "//example.com/api"}),
		"an API with a query":   good(map[string]any{"api": "/api?a=b"}),
		"a long API":            good(map[string]any{"api": "/" + strings.Repeat("a", MaxConnectURLBytes)}),
		"a bad URL":             map[string]any{"url": "127.0.0.1:1"},
		"a time that is text":   good(map[string]any{"healthTimeoutMs": "soon"}),
	} {
		if resp, text := w.connect(t, body); resp.StatusCode != http.StatusBadRequest || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s: %d %q", name, resp.StatusCode, text)
		}
	}
	if resp, _ := do(t, "POST", w.url+"/connect", "{"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("no JSON: %d", resp.StatusCode)
	}
	if resp, _ := do(t, "POST", w.url+"/connect", strings.Repeat(" ", MaxConnectBytes+1)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", resp.StatusCode)
	}
}

// The host is asked until it is well, for as long as the body says.
func TestConnectWaits(t *testing.T) {
	w, h := newWorld(t), newHost(t)
	h.healthy.Store(false)
	body := map[string]any{"base": h.url, "health": "/health", "api": "/api"}
	answered := false
	for limit := 2 * time.Second; !answered; limit *= 2 { // longer where it takes the host longer to answer
		body["healthTimeoutMs"] = limit.Milliseconds()
		began := time.Now()
		resp, text := w.connect(t, body)
		answered = strings.Contains(text, "HTTP 503")
		if took := time.Since(began); resp.StatusCode != http.StatusBadGateway || took < limit || !answered && limit > time.Minute {
			t.Fatalf("%d after %s: %s", resp.StatusCode, took, text)
		}
	}
	ill := make(chan struct{}, 100)
	h.onAsked.Store(&ill)
	go func() {
		<-ill
		<-ill
		h.healthy.Store(true)
	}()
	body["healthTimeoutMs"] = 20_000
	if resp, text := w.connect(t, body); resp.StatusCode != http.StatusOK {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
	serves(t, <-h.sockets)
	if resp, _ := w.connect(t, map[string]any{"base": "http://127.0.0.1:1", "health": "/h", "api": "/a", "healthTimeoutMs": 1}); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("nobody there: %d", resp.StatusCode)
	}
}

// The next /connect closes the socket of the one before with 1000, once its own host is
// well, and ends one that still waits.
func TestConnectReplaces(t *testing.T) {
	w, first, second := newWorld(t), newHost(t), newHost(t)
	to := func(h *host) map[string]any {
		return map[string]any{"base": h.url, "health": "/health", "api": "/api", "healthTimeoutMs": 20_000}
	}
	w.connect(t, to(first))
	old := <-first.sockets
	second.healthy.Store(false)
	waiting := make(chan int, 1)
	go func() {
		resp, err := http.Post(w.url+"/connect", "application/json", strings.NewReader(`{"url":"`+second.url+`"}`))
		if err != nil {
			waiting <- 0
			return
		}
		resp.Body.Close()
		waiting <- resp.StatusCode
	}()
	eventually(t, "the second host is asked", func() bool { return second.asked.Load() > 0 })
	second.healthy.Store(true)
	third := newHost(t)
	w.connect(t, to(third))
	if status := <-waiting; status != http.StatusBadGateway && status != http.StatusOK {
		t.Errorf("the one that waited got %d", status)
	}
	if code, _ := closingOf(t, old); code != websocket.CloseNormalClosure {
		t.Errorf("the old socket was closed with %d", code)
	}
	serves(t, <-third.sockets)
	eventually(t, "one session is left", func() bool { return w.computer.Sessions() == 1 })
}

// A /connect whose host was well, and that comes to replace the one before only now, leaves
// alone what a later one has made.
func TestConnectComesTooLate(t *testing.T) {
	c := newWorld(t).computer
	_, early := c.begin(t.Context())
	defer c.finish(early)
	_, late := c.begin(t.Context())
	s, previous, err := c.replaceUpstream(late, destination{ws: "late"})
	if err != nil || previous != nil {
		t.Fatalf("%v, %v", previous, err)
	}
	defer s.drop()
	c.finish(late)
	if _, previous, err := c.replaceUpstream(early, destination{ws: "early"}); !errors.Is(err, errReplaced) || previous != nil || c.Sessions() != 1 {
		t.Errorf("%v, %v, %d sessions", previous, err, c.Sessions())
	}
}

// A host that does not let the computer in leaves nothing behind, and one that goes away
// is not dialled again.
func TestConnectFails(t *testing.T) {
	w, h := newWorld(t), newHost(t)
	h.refuse.Store(true)
	body := map[string]any{"base": h.url, "health": "/health", "api": "/api"}
	if resp, _ := w.connect(t, body); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
	<-h.came
	eventually(t, "no session is left", func() bool { return w.computer.Sessions() == 0 })
	h.refuse.Store(false)
	w.connect(t, body)
	<-h.came
	(<-h.sockets).Close()
	eventually(t, "no session is left", func() bool { return w.computer.Sessions() == 0 })
	if len(h.came) != 0 {
		t.Error("dialled again")
	}
}

// Shutdown ends the session with the host, and a /connect that waits.
func TestShutdownOfConnect(t *testing.T) {
	w, h, ill := newWorld(t), newHost(t), newHost(t)
	w.connect(t, map[string]any{"url": h.url})
	ws := <-h.sockets
	ill.healthy.Store(false)
	waiting := make(chan int, 1)
	go func() {
		resp, err := http.Post(w.url+"/connect", "application/json", strings.NewReader(`{"url":"`+ill.url+`"}`))
		if err != nil {
			waiting <- 0
			return
		}
		resp.Body.Close()
		waiting <- resp.StatusCode
	}()
	eventually(t, "the host is asked", func() bool { return ill.asked.Load() > 0 })
	if err := w.server.Close(); err != nil {
		t.Error(err)
	}
	if status := <-waiting; status != http.StatusBadGateway {
		t.Errorf("got %d", status)
	}
	if code, _ := closingOf(t, ws); code != capnweb.CloseCode {
		t.Errorf("closed with %d", code)
	}
}

// The wait for a host is what the body says, within bounds.
func TestHealthTimeouts(t *testing.T) {
	for ms, want := range map[float64]time.Duration{
		0: HealthTimeout, -1: HealthTimeout, 1.5: 1500 * time.Microsecond, 20_000: 20 * time.Second, 1e300: MaxHealthTimeout,
	} {
		url := "http://127.0.0.1:1"
		d, err := (&connectBody{URL: &url, HealthTimeoutMs: &ms}).destination()
		if err != nil || d.timeout != want {
			t.Errorf("%v ms: %s, %v", ms, d.timeout, err)
		}
	}
}

// A hookedWriter calls a function with each line of a log.
type hookedWriter func(line string)

func (w hookedWriter) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// TestConnectKeepsItsPlace: others that take all places of the server while a /connect
// replaces the host do not leave the host of before served.
func TestConnectKeepsItsPlace(t *testing.T) {
	var w *world
	var once sync.Once
	var leave []func()
	fill := func(line string) {
		if !strings.Contains(line, errMute.Error()) {
			return
		}
		once.Do(func() { // between the health of the new host and its session
			for {
				_, l, err := w.server.Join(context.Background())
				if err != nil {
					return
				}
				leave = append(leave, l)
			}
		})
	}
	w = newWorld(t, func(cfg *Config, _ *server.HTTPConfig) {
		cfg.MaxSessions = 2
		cfg.Logger = slog.New(slog.NewTextHandler(hookedWriter(fill), nil))
	})
	first, second := newHost(t), newHost(t)
	w.connect(t, map[string]any{"url": first.url})
	old := <-first.sockets
	mute, err := w.computer.admit("mute", pathWS, false)
	if err != nil {
		t.Fatal(err)
	}
	w.computer.mu.Lock()
	mute.began = mute.began.Add(-2 * protocol.InitializeTimeout)
	w.computer.mu.Unlock()
	resp, body := w.connect(t, map[string]any{"url": second.url})
	if len(leave) == 0 {
		t.Error("the places were not taken")
	}
	for _, l := range leave {
		l()
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d: %s", resp.StatusCode, body)
	}
	if code, _ := closingOf(t, old); code != websocket.CloseNormalClosure {
		t.Errorf("the old socket was closed with %d", code)
	}
	serves(t, <-second.sockets)
	eventually(t, "one session is left", func() bool { return w.computer.Sessions() == 1 })
}

// TestConnectGivesItsPlaceBack: a /connect that fails leaves no place taken, nor one whose
// client goes away while it waits.
func TestConnectGivesItsPlaceBack(t *testing.T) {
	w, h := newWorld(t), newHost(t)
	h.healthy.Store(false)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/connect", strings.NewReader(`{"url":"`+h.url+`","healthTimeoutMs":60000}`))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	eventually(t, "the host is asked", func() bool { return h.asked.Load() > 0 })
	cancel()
	if err := <-gone; err == nil {
		t.Error("it is answered")
	}
	w.connect(t, map[string]any{"url": "http://127.0.0.1:1", "healthTimeoutMs": 1})
	eventually(t, "all places are free", func() bool {
		var leave []func()
		for {
			_, l, err := w.server.Join(context.Background())
			if err != nil {
				break
			}
			leave = append(leave, l)
		}
		for _, l := range leave {
			l()
		}
		return len(leave) == protocol.MaxConnections
	})
}
