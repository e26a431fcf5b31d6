package wsconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
)

// carrier is the configuration of a relay's carrier, but for its times.
var carrier = Config{MaxMessageBytes: 256 << 10, Binary: true, Owned: true, WriteTimeout: time.Minute}

func TestCarrierConnection(t *testing.T) {
	rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
		cfg := carrier
		cfg.MaxMessageBytes = 0 // the suite has large messages
		server, client := dial(t, cfg)
		return server, New(client, cfg)
	})
}

func TestBinaryOut(t *testing.T) {
	server, client := dial(t, carrier)
	if err := server.Write(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	kind, msg, err := client.ReadMessage()
	if err != nil || kind != websocket.BinaryMessage || string(msg) != "x" {
		t.Errorf("kind %d, %q, %v", kind, msg, err)
	}
}

// A text message is an error after which reading goes on, however long it was.
func TestTextIsSkipped(t *testing.T) {
	server, client := dial(t, carrier)
	go func() {
		_ = client.WriteMessage(websocket.TextMessage, make([]byte, 1<<20))
		_ = client.WriteMessage(websocket.TextMessage, nil)
		_ = client.WriteMessage(websocket.BinaryMessage, []byte("frame"))
	}()
	for range 2 {
		if msg, err := server.Read(t.Context()); !errors.Is(err, ErrText) || msg != nil {
			t.Fatalf("got %q, %v", msg, err)
		}
	}
	if msg, err := server.Read(t.Context()); err != nil || string(msg) != "frame" {
		t.Errorf("got %q, %v", msg, err)
	}
}

// A message stays as it is when others are read, of every size that is treated
// differently.
func TestOwnedMessages(t *testing.T) {
	cfg := carrier
	server, client := dial(t, cfg)
	sizes := []int{0, 1, 100, ownBuffer/2 - 1, ownBuffer / 2, ownBuffer - 1, ownBuffer, ownBuffer + 1, 200 << 10, 256 << 10}
	send := func(fill byte, n int) {
		if err := client.WriteMessage(websocket.BinaryMessage, bytes.Repeat([]byte{fill}, n)); err != nil {
			t.Error(err)
		}
	}
	go func() {
		for round := range 3 {
			for i, n := range sizes {
				send(byte(round*len(sizes)+i), n)
			}
		}
		send(0, 256<<10+1)
	}()
	var got [][]byte
	for range 3 * len(sizes) {
		msg, err := server.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, msg)
	}
	for i, msg := range got {
		if want := bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)]); !bytes.Equal(msg, want) {
			t.Errorf("message %d of %d bytes was changed", i, len(want))
		}
		if cap(msg) > 2*len(msg)+64 {
			t.Errorf("message of %d bytes holds %d", len(msg), cap(msg))
		}
	}
	if _, err := server.Read(t.Context()); !errors.Is(err, rpc.ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
}

// S-R11: a header that announces far too much is refused before that has come.
func TestSR11HeaderAnnouncesTooMuch(t *testing.T) {
	for _, n := range []uint64{1 << 40, 1 << 62, 8 << 20} {
		server, client := dial(t, carrier)
		header := binary.BigEndian.AppendUint64([]byte{0x82, 0xff}, n) // binary, final, masked
		if _, err := client.NetConn().Write(append(header, 0, 0, 0, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(t.Context()); !errors.Is(err, rpc.ErrTooLarge) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// What nobody reads for too long ends the connection for its reader, too.
func TestWriteTimeout(t *testing.T) {
	cfg := carrier
	cfg.WriteTimeout = 20 * time.Millisecond
	server, _ := dial(t, cfg)
	read := make(chan error, 1)
	go func() {
		_, err := server.Read(context.Background())
		read <- err
	}()
	var err error
	for err == nil {
		err = server.Write(t.Context(), make([]byte, 1<<20))
	}
	if !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Errorf("Write: %v", err)
	}
	if got := <-read; !errors.Is(got, err) && got.Error() != err.Error() {
		t.Errorf("Read: %v, Write: %v", got, err)
	}
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

// The end of its context does not tear a message of a connection that others use: it
// ends the wait for those only.
func TestContextDoesNotTearAMessage(t *testing.T) {
	server, client := dial(t, carrier)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- server.Write(ctx, make([]byte, 16<<20)) }() // more than the sockets hold
	for len(server.writing) == 0 {                                   // until it has begun
		runtime.Gosched()
	}
	second := make(chan error, 1)
	go func() { second <- server.Write(ctx, []byte("second")) }()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waits: %v", err)
	}
	select {
	case err := <-first:
		t.Fatalf("torn: %v", err)
	default:
	}
	if _, msg, err := client.ReadMessage(); err != nil || len(msg) != 16<<20 {
		t.Errorf("%d bytes, %v", len(msg), err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// Only a pong is an answer to a ping: neither messages nor the other end's pings.
func TestPongTimeout(t *testing.T) {
	cfg := carrier
	cfg.PingInterval, cfg.PongTimeout = time.Millisecond, 50*time.Millisecond
	began := time.Now() // the first ping comes with a timer that dial sets
	server, client := dial(t, cfg)
	client.SetPingHandler(func(string) error { return nil }) // no answer
	go func() { _, _, _ = client.ReadMessage() }()
	go func() {
		for client.WriteMessage(websocket.BinaryMessage, []byte("busy")) == nil {
			if client.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Minute)) != nil {
				return
			}
		}
	}()
	var err error
	for err == nil {
		_, err = server.Read(t.Context())
	}
	if !errors.Is(err, ErrSilent) {
		t.Errorf("Read: %v", err)
	}
	if took := time.Since(began); took < cfg.PongTimeout {
		t.Errorf("given up after %v", took)
	}
	if err := server.Write(t.Context(), []byte("x")); !errors.Is(err, ErrSilent) {
		t.Errorf("Write: %v", err)
	}
}

// A connection whose pings are answered lives.
func TestPongsKeepAlive(t *testing.T) {
	cfg := carrier
	cfg.PingInterval, cfg.PongTimeout = time.Millisecond, time.Minute
	server, client := dial(t, cfg)
	pings := make(chan string)
	client.SetPingHandler(func(payload string) error { pings <- payload; return nil })
	go func() { _, _, _ = client.ReadMessage() }()
	read := make(chan error, 1)
	go func() {
		_, err := server.Read(context.Background())
		read <- err
	}()
	for range 5 {
		payload := <-pings
		if payload != "" {
			t.Errorf("ping with %q", payload)
		}
		if err := client.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-read:
		t.Errorf("ended: %v", err)
	default:
	}
	_ = server.Close()
	if err := <-read; !errors.Is(err, rpc.ErrClosed) && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
