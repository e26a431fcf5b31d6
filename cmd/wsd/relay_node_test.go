package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// A relay that shuts down lets nobody in, and answers who is in the middle of a request.
// (The real codex tries again when it is not let in, and gives up when it is cut.)
func TestRelayAnswersWhileItShutsDown(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	node, err := rendezvous.New(rendezvous.Config{State: rendezvous.NewMemory(), PublicURL: "http://" + listener.Addr().String(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- runNode(ctx, node, listener, (&relayOptions{}).newcomers(relayNewcomers, log), log) }()

	addr := listener.Addr().String()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", addr); err != nil {
		t.Fatal(err)
	}
	ready, err := http.Get("http://" + addr + "/healthz") // the first connection has been taken up by then
	if err != nil {
		t.Fatal(err)
	}
	_ = ready.Body.Close()
	end()
	for {
		other, err := net.Dial("tcp", addr)
		if err != nil {
			break // it is closed
		}
		_ = other.Close()
	}
	if _, err := io.WriteString(conn, "\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
