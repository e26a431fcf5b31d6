package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

func bareServer(most int) *Server {
	table := rpc.NewTable()
	Register(table)
	return New(Config{Table: table, MaxConnections: most})
}

// Shutdown ends what has joined and waits for it to leave.
func TestShutdownWaitsForGuests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bareServer(0)
		ctx, leave, err := s.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		if err := context.Cause(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("its context has %v", err)
		}
		select {
		case err := <-down:
			t.Fatalf("shut down with a guest: %v", err)
		default:
		}
		leave()
		if err := <-down; err != nil {
			t.Error(err)
		}
		if _, _, err := s.Join(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("let in after the end: %v", err)
		}
	})
}

// Guests count as connections, and give their places back.
func TestGuestsTakePlaces(t *testing.T) {
	s := bareServer(1)
	defer s.Close()
	_, leave, err := s.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
	if _, _, err := s.Join(t.Context()); !errors.Is(err, ErrTooManyConnections) {
		t.Errorf("got %v", err)
	}
	leave()
	if _, leave, err := s.Join(t.Context()); err != nil {
		t.Error(err)
	} else {
		leave()
	}
}

// routed serves a page and a WebSocket that sends back what it gets.
func routed(t *testing.T, s *Server, cfg HTTPConfig) string {
	t.Helper()
	cfg.Routes = map[string]http.Handler{
		"/page": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { text(w, 200, r.Method) }),
		"/echo": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.ServeWebSocket(w, r, wsconn.Config{Text: true}, func(ctx context.Context, conn *wsconn.Conn) {
				for {
					msg, err := conn.Read(ctx)
					if err != nil {
						return
					}
					_ = conn.Write(ctx, msg)
				}
			})
		}),
	}
	srv := httptest.NewServer(s.Handler(cfg))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestRoutes(t *testing.T) {
	s := bareServer(0)
	defer s.Close()
	url := routed(t, s, HTTPConfig{Authorize: func(r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer x" {
			return errors.New("no")
		}
		return nil
	}})
	for _, c := range []struct {
		method, path, bearer, origin string
		want                         int
	}{
		{"GET", "/page", "x", "", 200},
		{"DELETE", "/page", "x", "", 200},
		{"GET", "/page", "", "", 401},
		{"GET", "/page", "y", "", 401},
		{"GET", "/echo", "", "", 401},
		{"GET", "/echo", "x", "", 400},
		{"GET", "/nothing", "", "", 401},
		{"GET", "/nothing", "x", "", 404},
		{"GET", "/page", "x", "http://evil.example", 403},
		{"GET", "/health", "", "", 200},
		{"HEAD", "/health", "", "", 200},
		{"GET", "/healthz", "", "", 200},
		{"GET", "/readyz", "", "", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.bearer != "" {
			req.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.path, c.bearer, resp.StatusCode, c.want)
		}
		if challenge := resp.Header.Get("WWW-Authenticate"); (c.want == 401) != (challenge == "Bearer") {
			t.Errorf("%s %s: the challenge is %q", c.method, c.path, challenge)
		}
	}
}

// A WebSocket of a route is served until Shutdown, beyond which none begins.
func TestRouteWebSocket(t *testing.T) {
	s := bareServer(1)
	url := "ws" + strings.TrimPrefix(routed(t, s, HTTPConfig{}), "http") + "/echo"
	ws, resp, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer ws.Close()
	if err := ws.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, msg, err := ws.ReadMessage(); string(msg) != "hello" {
		t.Fatalf("%q, %v", msg, err)
	}
	if _, resp, err := websocket.DefaultDialer.Dial(url, nil); err == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a second one: %v", err)
	} else {
		resp.Body.Close()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := ws.ReadMessage(); err == nil {
		t.Error("it goes on")
	}
	if _, resp, err := websocket.DefaultDialer.Dial(url, nil); err == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one after the end: %v", err)
	} else {
		resp.Body.Close()
	}
}
