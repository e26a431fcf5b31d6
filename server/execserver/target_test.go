package execserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
)

// targetVariable names a server elsewhere, such as ws://127.0.0.1:47111, that the
// transcripts are run against instead: the original, to calibrate them.
const targetVariable = "WSD_TEST_TARGET"

// Kinds of connection.
const (
	kindPair      = "pair"
	kindWebSocket = "websocket"
	kindUnix      = "unix"
	kindStdio     = "stdio"
)

// patience bounds every wait of these tests. What takes longer has failed.
const patience = 60 * time.Second

// A link is a client's end of a connection, as bytes.
type link interface {
	// read returns an error that holds a *websocket.CloseError where there was one.
	read() ([]byte, error)
	write(text []byte) error
	close() error
}

// A target makes connections to a server.
type target struct {
	kind     string
	original bool
	dial     func(t *testing.T) link
}

// newTarget assembles a server and makes it reachable in the way that kind says.
func newTarget(t *testing.T, kind string) *target {
	t.Helper()
	if url := os.Getenv(targetVariable); url != "" {
		return &target{kind: kindWebSocket, original: true, dial: func(t *testing.T) link { return dialWebSocket(t, url) }}
	}
	srv := newServer(t)
	switch kind {
	case kindPair:
		return &target{kind: kind, dial: func(*testing.T) link { return dialPair(srv) }}
	case kindStdio:
		return &target{kind: kind, dial: func(t *testing.T) link { return dialStdio(t, srv) }}
	}
	url := "ws://127.0.0.1:0"
	if kind == kindUnix {
		url = "unix://" + filepath.Join(privateDir(t), "socket")
	}
	endpoint, err := srv.Listen(server.EndpointConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	run(t, srv, endpoint)
	return &target{kind: kind, dial: func(t *testing.T) link { return dialWebSocket(t, endpoint.URL()) }}
}

// run serves endpoint until the test ends.
func run(t *testing.T, srv *server.Server, endpoint *server.Endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx, endpoint) }() // the cleanup waits for it
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server ended: %v", err)
			}
		case <-time.After(patience):
			t.Error("the server does not end")
		}
	})
}

// pairLink is an end of rpc.Pair.
type pairLink struct{ conn rpc.Connection }

func dialPair(srv *server.Server) link {
	near, far := rpc.Pair()
	go func() { _ = srv.ServeConnection(context.Background(), far, server.ConnectionOptions{}) }() // ends with near or srv
	return pairLink{near}
}

func (l pairLink) read() ([]byte, error)   { return l.conn.Read(context.Background()) }
func (l pairLink) write(text []byte) error { return l.conn.Write(context.Background(), text) }
func (l pairLink) close() error            { return l.conn.Close() }

// webSocketLink speaks through gorilla/websocket itself, so that a fault of wsconn does
// not cancel out.
type webSocketLink struct {
	ws *websocket.Conn
	mu sync.Mutex // of writes
}

// dialWebSocket dials ws://HOST:PORT or unix:///PATH.
func dialWebSocket(t *testing.T, url string) *webSocketLink {
	t.Helper()
	dialer := websocket.Dialer{HandshakeTimeout: patience, WriteBufferSize: 64 << 10}
	if path, ok := strings.CutPrefix(url, "unix://"); ok {
		url = "ws://unix/"
		dialer.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	ws, response, err := dialer.Dial(url, nil)
	if err != nil {
		t.Fatalf("dial %s: %v", url, err)
	}
	response.Body.Close()
	return &webSocketLink{ws: ws}
}

func (l *webSocketLink) read() ([]byte, error) {
	kind, text, err := l.ws.ReadMessage()
	if err == nil && kind != websocket.TextMessage {
		err = errors.New("a message is not text")
	}
	return text, err
}

func (l *webSocketLink) write(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ws.WriteMessage(websocket.TextMessage, text)
}

func (l *webSocketLink) close() error { return l.ws.Close() }

// stdioLink is a client of a server that speaks on its own streams.
type stdioLink struct {
	in  *io.PipeWriter
	out *bufio.Reader
	end func()
}

func dialStdio(t *testing.T, srv *server.Server) link {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	endpoint, err := srv.Listen(server.EndpointConfig{URL: "stdio", Stdin: inRead, Stdout: outWrite})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // the link's close waits for it
		defer close(ended)
		if err := srv.Run(context.Background(), endpoint); err != nil {
			t.Errorf("the server ended: %v", err)
		}
		outWrite.Close()
	}()
	return &stdioLink{in: inWrite, out: bufio.NewReader(outRead), end: func() {
		outRead.Close()
		<-ended
	}}
}

func (l *stdioLink) read() ([]byte, error) {
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return line[:len(line)-1], nil
}

func (l *stdioLink) write(text []byte) error {
	_, err := fmt.Fprintf(l.in, "%s\n", text)
	return err
}

func (l *stdioLink) close() error {
	l.in.Close()
	l.end()
	return nil
}
