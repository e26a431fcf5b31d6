package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
	"github.com/wsd-dev/wsd/server/workspace"
)

// serveStdio makes the test binary a server on its stdin and stdout.
const (
	serveStdio = "WSD_TEST_SERVE_STDIO"
	serveDir   = "WSD_TEST_SERVE_WORKSPACE" // which it serves too
)

func TestMain(m *testing.M) {
	if os.Getenv(serveStdio) != "" {
		if err := runStdio(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runStdio serves on stdin and stdout, and the workspace that the environment names.
func runStdio() error {
	var cfg execserver.Config
	if dir := os.Getenv(serveDir); dir != "" {
		ws, err := workspace.Open(context.Background(), workspace.Config{Dir: dir, Store: dir + ".db", MountPoint: dir})
		if err != nil {
			return err
		}
		defer ws.Close()
		cfg.Workspace = ws
	}
	srv, err := execserver.New(cfg)
	if err != nil {
		return err
	}
	endpoint, err := srv.Listen(server.EndpointConfig{URL: "stdio"})
	if err != nil {
		return err
	}
	return srv.Run(context.Background(), endpoint)
}

// transports reach a real server in every way that there is.
func transports(t *testing.T) map[string]func() client.Transport {
	return map[string]func() client.Transport{
		"ws": func() client.Transport { return newTransport(t, serve(t, execserver.Config{})) },
		"unix": func() client.Transport {
			socket := filepath.Join(t.TempDir(), "wsd.sock")
			return newTransport(t, serveAt(t, "unix://"+socket))
		},
		"stdio": func() client.Transport {
			t.Setenv(serveStdio, "1")
			return client.NewCommandTransport([]string{os.Args[0]}, os.Stderr)
		},
	}
}

func newTransport(t *testing.T, url string) client.Transport {
	t.Helper()
	transport, err := client.NewTransport(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

func TestTransports(t *testing.T) {
	for name, make := range transports(t) {
		t.Run(name, func(t *testing.T) {
			c := client.Open(make(), nil)
			defer c.Close()
			if c.Kind() != name || c.Connected() {
				t.Errorf("kind %s, connected %v", c.Kind(), c.Connected())
			}
			result, err := c.Run(t.Context(), client.Command{Argv: []string{"cat"}}, strings.NewReader("hello"))
			if err != nil || string(result.Stdout) != "hello" || result.Code != 0 {
				t.Fatalf("%+v, %v", result, err)
			}
			if !c.Connected() {
				t.Error("not connected")
			}
			if _, err := c.Start(t.Context(), client.Command{Argv: []string{"sleep", "300"}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if _, err := c.Status(t.Context()); !errors.Is(err, client.ErrClosed) {
				t.Errorf("after close: %v", err)
			}
		})
	}
}

func TestUnusableURLs(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"http://127.0.0.1:1", "unsupported URL"},
		{"127.0.0.1:45678", "parse URL"},
		{"ws:///x", "names no host"},
		{"unix://host/x", "names no socket"},
		{"unix://", "names no socket"},
		{"ws://example.test:80", "not sent to example.test:80 without TLS"},
	} {
		_, err := client.NewTransport(tt.url, &client.Options{BearerToken: "secret"})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", tt.url, err, tt.want)
		}
	}
}

func TestHeadersAndRefusal(t *testing.T) {
	headers := make(chan http.Header, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		http.Error(w, "invalid websocket bearer token", http.StatusUnauthorized)
	}))
	defer srv.Close()
	url := "ws" + strings.TrimPrefix(srv.URL, "http")
	_, err := client.Dial(t.Context(), url, &client.Options{BearerToken: "secret", RequestID: "r-1"})
	refused, ok := errors.AsType[*client.RefusedError](err)
	if !ok || refused.Status != http.StatusUnauthorized || refused.Reason != "invalid websocket bearer token" {
		t.Errorf("got %v", err)
	}
	h := <-headers
	if h.Get("Authorization") != "Bearer secret" || h.Get("X-Request-Id") != "r-1" || h.Get("Origin") != "" {
		t.Errorf("headers %v", h)
	}
}

func TestTokenIsNotLogged(t *testing.T) {
	var buf bytes.Buffer
	slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "options", client.Options{BearerToken: "secret"})
	if strings.Contains(buf.String(), "secret") {
		t.Error(buf.String())
	}
}

func TestNobodyListens(t *testing.T) {
	_, err := client.Dial(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none.sock"), nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	_, err = client.DialCommand(t.Context(), []string{filepath.Join(t.TempDir(), "none")}, nil, nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	_, err = client.DialCommand(t.Context(), []string{"true"}, nil, nil)
	if err == nil {
		t.Error("a program that is no server")
	}
}

// A child that dies ends the Client: there is no session to go back to.
func TestChildDies(t *testing.T) {
	t.Setenv(serveStdio, "1")
	c, err := client.DialCommand(t.Context(), []string{os.Args[0]}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "read go; kill -9 $PPID; sleep 300"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stdin.Write([]byte("go\n")); err != nil && !errors.Is(err, client.ErrTransportClosed) && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); !errors.Is(err, client.ErrTransportClosed) {
		t.Errorf("got %v", err)
	}
}

// New takes any connection.
func TestNew(t *testing.T) {
	srv, err := execserver.New(execserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	a, b := rpc.Pair()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.ServeConnection(context.Background(), b, server.ConnectionOptions{})
	}()
	c, err := client.New(t.Context(), a, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := c.Status(t.Context()); err != nil || status != "ready" {
		t.Errorf("%s, %v", status, err)
	}
	_ = a.Close() // the connection is lost, and there is no way back
	<-done
	if _, err := c.Status(t.Context()); !errors.Is(err, client.ErrTransportClosed) {
		t.Errorf("got %v", err)
	}
	_ = c.Close()
}
