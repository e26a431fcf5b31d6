package client_test

import (
	"context"
	"testing"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
)

// serve runs a real server on a loopback port until the test ends.
func serve(t testing.TB, cfg execserver.Config) string {
	t.Helper()
	return serveOn(t, "ws://127.0.0.1:0", cfg)
}

func serveAt(t testing.TB, url string) string {
	t.Helper()
	return serveOn(t, url, execserver.Config{})
}

func serveOn(t testing.TB, url string, cfg execserver.Config) string {
	t.Helper()
	srv, err := execserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := srv.Listen(server.EndpointConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx, endpoint) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return endpoint.URL()
}

// dial connects to a server of its own until the test ends.
func dial(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), serve(t, execserver.Config{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
