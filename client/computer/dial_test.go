package computer

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
)

func TestDialTargets(t *testing.T) {
	for url, want := range map[string][]string{
		"http://host:1":         {"ws://host:1/api", "ws://host:1/ws"},
		"http://host:1/":        {"ws://host:1/api", "ws://host:1/ws"},
		"https://host":          {"wss://host/api", "wss://host/ws"},
		"ws://host:1/ws":        {"ws://host:1/ws"},
		"wss://host/deep/api?x": {"wss://host/deep/api?x"},
		"unix:///run/wsd.sock":  {"ws://localhost/api", "ws://localhost/ws"},
	} {
		d, err := newDialer(url, &Options{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if diff := cmp.Diff(want, d.targets); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
	for _, url := range []string{"", "host:1", "ftp://host", "http://", "http://user:pw@host", "unix://host/path", "unix://", "http://[", "ws://host#x"} {
		if _, err := newDialer(url, &Options{}); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A secret goes where nobody else can read it.
func TestSecretIsKept(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://127.0.0.1:1": true, "http://[::1]:1": true, "http://localhost": true, "https://host": true, "unix:///a": true,
		"http://host": false, "ws://10.0.0.1": false,
	} {
		d, err := newDialer(url, &Options{Secret: "s"})
		if (err == nil) != ok || ok && d.header.Get("Authorization") != "Bearer s" {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t)
	_, err := Dial(t.Context(), w.web.URL, &Options{Secret: "wrong"})
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Status != http.StatusUnauthorized || r.Reason != "unauthorized" {
		t.Errorf("got %v", err)
	}
	if _, err := Dial(t.Context(), "http://127.0.0.1:1", nil); err == nil {
		t.Error("nobody answered, but for something")
	}
}

// The first computers have a WebSocket at /ws only.
func TestDialFallsBack(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws" {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		w.web.Config.Handler.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	c, err := Dial(t.Context(), srv.URL, &Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Watermarks(within(t), false); err != nil {
		t.Error(err)
	}
}

func TestDialUnix(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: w.web.Config.Handler} //nolint:gosec // of a test
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	defer func() { srv.Close(); <-done }()
	c, err := Dial(t.Context(), "unix://"+path, &Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Watermarks(within(t), false); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Something else that answers is no computer.
func TestNoComputer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		_ = ws.WriteMessage(websocket.TextMessage, []byte("hello"))
		_, _, _ = ws.ReadMessage()
	}))
	defer srv.Close()
	c, err := Dial(t.Context(), srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Watermarks(within(t), false); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
}
