package wsconn

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
)

func TestUnmaskedConnection(t *testing.T) {
	rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
		server, client := dial(t, Config{Unmasked: true})
		return server, New(client, Config{})
	})
}

// Messages of every form of head arrive as they are, beside those of Write.
func TestTryWrite(t *testing.T) {
	server, client := dial(t, Config{Unmasked: true})
	for i, size := range []int{0, 1, 125, 126, 4096, maxDirect - maxHead, maxDirect - maxHead + 1, 1 << 17} {
		msg := bytes.Repeat([]byte{'a' + byte(i)}, size)
		finish, err := server.TryWrite(msg)
		if err != nil {
			t.Fatal(err)
		}
		if long := size > maxDirect-maxHead; long != (finish != nil) {
			t.Errorf("%d bytes: left for later %v, want %v", size, finish != nil, long)
		}
		done := make(chan error, 1)
		go func() {
			if finish == nil {
				done <- nil
				return
			}
			done <- finish()
		}()
		kind, got, err := client.ReadMessage()
		if err != nil || kind != websocket.TextMessage || !bytes.Equal(got, msg) {
			t.Errorf("%d bytes: kind %d, %d bytes, %v", size, kind, len(got), err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// It never waits for a client that does not read. What it has begun is finished later,
// and no ping or pong gets into the middle of it.
func TestTryWriteToAStalledReader(t *testing.T) {
	server, client := dial(t, Config{Unmasked: true})
	go func() { // answers pings
		for {
			if _, err := server.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	const limit = 100_000 // messages of 5 KB: more than the sockets hold
	sent := 0
	var finish func() error
	for finish == nil {
		var err error
		if finish, err = server.TryWrite(stalledMessage(sent)); err != nil {
			t.Fatal(err)
		}
		if sent++; sent == limit {
			t.Fatal("everything was taken")
		}
	}
	if again, err := server.TryWrite([]byte("x")); again == nil || err != nil {
		t.Fatalf("a write beside one that waits: %v", err)
	}
	finished, pinged := make(chan error, 1), make(chan error, 1)
	go func() { pinged <- server.Ping(t.Context()) }()
	go func() { finished <- finish() }()
	if err := client.WriteControl(websocket.PingMessage, []byte("p"), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for i := range sent {
		if _, got, err := client.ReadMessage(); err != nil || !bytes.Equal(got, stalledMessage(i)) {
			t.Fatalf("message %d: %.60q, %v", i, got, err)
		}
	}
	if err := <-finished; err != nil {
		t.Error(err)
	}
	if finish, err := server.TryWrite([]byte("last")); err != nil {
		t.Error(err)
	} else if finish != nil { // a ping is on its way
		if err := finish(); err != nil {
			t.Error(err)
		}
	}
	if _, got, err := client.ReadMessage(); string(got) != "last" {
		t.Errorf("%.60q, %v", got, err)
	}
	go func() { _, _, _ = client.ReadMessage() }() // the ping may be behind it
	if err := <-pinged; err != nil {
		t.Errorf("a ping: %v", err)
	}
}

func stalledMessage(i int) []byte {
	return fmt.Appendf(nil, "%d%s", i, bytes.Repeat([]byte("."), 5000))
}

// A client's frames are masked, of whatever length.
func TestTryWriteMasked(t *testing.T) {
	server, ws := dial(t, Config{Binary: true})
	client := New(ws, Config{Binary: true, Masked: true})
	for _, size := range []int{1, 3, 4, 7, 8, 9, 125, 126, 127, 1000, maxDirect - maxHead} {
		msg := make([]byte, size)
		for i := range msg {
			msg[i] = byte(i * 7)
		}
		kept := bytes.Clone(msg)
		if finish, err := client.TryWrite(msg); finish != nil || err != nil {
			t.Fatalf("%d bytes are not written at once: %v", size, err)
		}
		got, err := server.Read(t.Context())
		if err != nil || !bytes.Equal(got, kept) || !bytes.Equal(msg, kept) {
			t.Fatalf("%d bytes came as %d others, %v", size, len(got), err)
		}
	}
}

// Where it was not said whose end it is, and over TLS, which has no system call that
// writes, all is left to Write.
func TestTryWriteLeavesIt(t *testing.T) {
	server, client := dial(t, Config{})
	for _, c := range []*Conn{server, New(client, Config{})} {
		if finish, err := c.TryWrite([]byte("x")); finish == nil || err != nil {
			t.Errorf("written at once: %v", err)
		}
	}
}

func TestTryWriteAfterClose(t *testing.T) {
	server, _ := dial(t, Config{Unmasked: true})
	server.Close()
	finish, err := server.TryWrite([]byte("x"))
	if finish != nil {
		err = finish()
	}
	if err == nil {
		t.Error("written")
	}
}
