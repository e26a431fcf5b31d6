package raw

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// serve runs handle with the server's end of every connection; it returns the address.
func serve(t *testing.T, handle func(*websocket.Conn)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{WriteBufferSize: 1000}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		handle(c)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// echo sends back what it gets, in frames of about 1000 bytes.
func echo(c *websocket.Conn) {
	for {
		kind, msg, err := c.ReadMessage()
		if err != nil {
			return
		}
		w, err := c.NextWriter(kind)
		if err != nil {
			return
		}
		if _, err := w.Write(msg); err != nil || w.Close() != nil {
			return
		}
	}
}

func dialTest(t *testing.T, addr string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), addr, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestEcho(t *testing.T) {
	c := dialTest(t, serve(t, echo))
	for _, size := range []int{0, 1, 125, 126, 4096, 4097, 65535, 65536, readBuffer, readBuffer + 1, maxFrame - 1, maxFrame, maxFrame + 1, 2*maxFrame + 17} {
		msg := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		// Beside the reading: the server may write before it has read all.
		sent := make(chan error, 1)
		go func() { sent <- c.Send(msg) }()
		got, err := c.ReadBytes()
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.Equal(got, msg) {
			t.Errorf("%d bytes came back as %d others", size, len(got))
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

func TestBinary(t *testing.T) {
	kinds := make(chan int, 1)
	c := dialTest(t, serve(t, func(s *websocket.Conn) {
		kind, _, _ := s.ReadMessage()
		kinds <- kind
	}))
	if err := c.SendBinary([]byte{0xff}); err != nil {
		t.Fatal(err)
	}
	if kind := <-kinds; kind != websocket.BinaryMessage {
		t.Errorf("sent as kind %d", kind)
	}
}

// Pings are answered between messages, and a message that follows is not lost.
func TestPing(t *testing.T) {
	pong := make(chan string, 1)
	c := dialTest(t, serve(t, func(s *websocket.Conn) {
		s.SetPongHandler(func(payload string) error {
			pong <- payload
			return nil
		})
		if s.WriteMessage(websocket.PingMessage, []byte("are you there")) != nil ||
			s.WriteMessage(websocket.TextMessage, []byte("next")) != nil {
			return
		}
		_, _, _ = s.ReadMessage()
	}))
	got, err := c.ReadBytes()
	if err != nil || string(got) != "next" {
		t.Fatalf("%q, %v", got, err)
	}
	if p := <-pong; p != "are you there" {
		t.Errorf("pong %q", p)
	}
}

func TestServerCloses(t *testing.T) {
	c := dialTest(t, serve(t, func(s *websocket.Conn) {
		_ = s.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1009, "too long"))
	}))
	_, err := c.ReadBytes()
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "1009 too long") {
		t.Errorf("ReadBytes: %v", err)
	}
}

func TestUpgrade(t *testing.T) {
	header := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header <- r.Header.Clone()
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	defer server.Close()
	_, err := Dial(t.Context(), strings.TrimPrefix(server.URL, "http://"), Config{Header: http.Header{"Authorization": {"Bearer x"}}})
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("Dial: %v", err)
	}
	if got := (<-header).Get("Authorization"); got != "Bearer x" {
		t.Errorf("Authorization %q", got)
	}
}
