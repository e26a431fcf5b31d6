package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// isOpen looks from the other end.
func isOpen(t *testing.T, far net.Conn) bool {
	t.Helper()
	_ = far.SetReadDeadline(time.Now().Add(-1))
	_, err := far.Read(make([]byte, 1))
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return !errors.Is(err, io.EOF)
}

// For one connection too many the quietest goes, not the new one, and not one that has
// become a WebSocket.
func TestTheQuietestNewcomerGoes(t *testing.T) {
	var n newcomers
	near, far := make([]net.Conn, protocol.MaxHTTPConnections+3), make([]net.Conn, protocol.MaxHTTPConnections+3)
	for i := range near {
		near[i], far[i] = net.Pipe()
	}
	limit := protocol.MaxHTTPConnections
	for _, c := range near[:limit] {
		n.change(c, http.StateNew)
	}
	n.change(near[0], http.StateActive) // it has begun a request
	n.change(near[limit], http.StateNew)
	for i, want := range map[int]bool{0: true, 1: false, 2: true, limit: true} {
		if got := isOpen(t, far[i]); got != want {
			t.Errorf("connection %d is open: %v", i, got)
		}
	}
	n.change(near[1], http.StateClosed) // as net/http says once it notices
	n.change(near[2], http.StateHijacked)
	n.change(near[limit+1], http.StateNew)
	if !isOpen(t, far[2]) || !isOpen(t, far[3]) || !isOpen(t, far[limit+1]) {
		t.Error("a connection was closed although there was room")
	}
	n.change(near[limit+2], http.StateNew)
	if isOpen(t, far[3]) || !isOpen(t, far[2]) {
		t.Error("another than the quietest went")
	}
	if n.quiet.Len() != limit || len(n.places) != limit {
		t.Errorf("%d and %d are kept", n.quiet.Len(), len(n.places))
	}
}

// Who connects and says nothing does not keep others out.
func TestSilentClientsKeepNobodyOut(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	for range protocol.MaxHTTPConnections + 10 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if got := ask(t, addr, "GET /healthz HTTP/1.1\r\n"); got.status != http.StatusOK {
		t.Errorf("status %d", got.status)
	}
}
