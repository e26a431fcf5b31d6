package server

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
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
	n := NewNewcomers(protocol.MaxHTTPConnections, protocol.MaxHTTPConnectionsOfOne, slog.New(slog.DiscardHandler))
	near, far := make([]net.Conn, protocol.MaxHTTPConnections+3), make([]net.Conn, protocol.MaxHTTPConnections+3)
	for i := range near {
		near[i], far[i] = net.Pipe()
	}
	limit := protocol.MaxHTTPConnections
	for _, c := range near[:limit] {
		n.Change(c, http.StateNew)
	}
	n.Change(near[0], http.StateActive) // it has begun a request
	n.Change(near[limit], http.StateNew)
	for i, want := range map[int]bool{0: true, 1: false, 2: true, limit: true} {
		if got := isOpen(t, far[i]); got != want {
			t.Errorf("connection %d is open: %v", i, got)
		}
	}
	n.Change(near[1], http.StateClosed) // as net/http says once it notices
	n.Change(near[2], http.StateHijacked)
	n.Change(near[limit+1], http.StateNew)
	if !isOpen(t, far[2]) || !isOpen(t, far[3]) || !isOpen(t, far[limit+1]) {
		t.Error("a connection was closed although there was room")
	}
	n.Change(near[limit+2], http.StateNew)
	if isOpen(t, far[3]) || !isOpen(t, far[2]) {
		t.Error("another than the quietest went")
	}
	if n.quiet.Len()+n.busy.Len() != limit || len(n.places) != limit {
		t.Errorf("%d, %d and %d are kept", n.quiet.Len(), n.busy.Len(), len(n.places))
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

// from is a connection from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (c from) RemoteAddr() net.Addr { return c.addr }

// A connection whose request is being answered does not go while there are others.
func TestSR6RequestsAreAnswered(t *testing.T) {
	n := NewNewcomers(8, 4, slog.New(slog.DiscardHandler))
	near, far := net.Pipe()
	asking := from{near, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}}
	n.Change(asking, http.StateNew)
	n.Change(asking, http.StateActive)
	for range 100 {
		other, _ := net.Pipe()
		n.Change(from{other, asking.addr}, http.StateNew)
	}
	if !isOpen(t, far) {
		t.Error("it went")
	}
}

// One address has its own bound: its connections go for its new ones, nobody else's.
func TestSR6OneAddressHasItsOwnBound(t *testing.T) {
	var log bytes.Buffer
	n := NewNewcomers(8, 4, slog.New(slog.NewTextHandler(&log, nil)))
	connect := func(ip byte) (far net.Conn) {
		near, far := net.Pipe()
		n.Change(from{near, &net.TCPAddr{IP: net.IPv4(192, 0, 2, ip)}}, http.StateNew)
		return far
	}
	innocent := connect(1)
	var flood []net.Conn
	for range 100 {
		flood = append(flood, connect(2))
	}
	if !isOpen(t, innocent) {
		t.Error("the other address's went")
	}
	for i, c := range flood {
		if isOpen(t, c) != (i >= 96) {
			t.Errorf("connection %d of the flood is open: %v", i, i < 96)
		}
	}
	for ip := range byte(7) { // of many addresses the quietest goes
		connect(10 + ip)
	}
	if isOpen(t, innocent) || len(n.places) != 8 || len(n.hosts) != 8 {
		t.Errorf("%d connections from %d addresses are kept", len(n.places), len(n.hosts))
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 1 {
		t.Errorf("%d warnings", got)
	}
}
