package wsconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// dial returns the two ends of a WebSocket over loopback: the server's as a Conn,
// the client's as it is.
func dial(t *testing.T, cfg Config) (*Conn, *websocket.Conn) {
	t.Helper()
	return dialBy(t, cfg, websocket.DefaultDialer, func(w http.ResponseWriter) http.ResponseWriter { return w })
}

func dialBy(t *testing.T, cfg Config, by *websocket.Dialer, upgrade func(http.ResponseWriter) http.ResponseWriter) (*Conn, *websocket.Conn) {
	t.Helper()
	accepted := make(chan *websocket.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(upgrade(w), r, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- ws
	}))
	t.Cleanup(srv.Close)
	client, resp, err := by.Dial("ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	server := New(<-accepted, cfg)
	t.Cleanup(func() { client.Close(); server.Close() })
	return server, client
}

func TestConnection(t *testing.T) {
	rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
		server, client := dial(t, Config{})
		return server, New(client, Config{})
	})
	t.Run("FromTheClient", func(t *testing.T) {
		rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
			server, client := dial(t, Config{})
			return New(client, Config{}), server
		})
	})
}

func closeCode(t *testing.T, client *websocket.Conn) int {
	t.Helper()
	_ = client.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		_, _, err := client.ReadMessage()
		if err == nil {
			continue
		}
		closing, ok := errors.AsType[*websocket.CloseError](err)
		if !ok {
			t.Fatalf("no close frame: %v", err)
		}
		return closing.Code
	}
}

// C-020: a message over the limit ends with a close frame that arrives, although
// the client is still sending.
func TestC020TooLarge(t *testing.T) {
	server, client := dial(t, Config{MaxMessageBytes: 1 << 20})
	sent := make(chan error, 1)
	go func() { sent <- client.WriteMessage(websocket.TextMessage, make([]byte, 1<<20)) }()
	if msg, err := server.Read(t.Context()); err != nil || len(msg) != 1<<20 {
		t.Fatalf("a message of the limit's size: %d bytes, %v", len(msg), err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	go func() { _ = client.WriteMessage(websocket.TextMessage, make([]byte, 30<<20)) }()
	if _, err := server.Read(t.Context()); !errors.Is(err, rpc.ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	_ = server.CloseFault(rpc.CloseTooLarge, "too large")
	if code := closeCode(t, client); code != rpc.CloseTooLarge {
		t.Errorf("close code %d", code)
	}
}

func TestCloseFault(t *testing.T) {
	server, client := dial(t, Config{})
	if err := server.CloseFault(rpc.ClosePolicyViolation, strings.Repeat("because ", 40)); err != nil {
		t.Fatal(err)
	}
	if code := closeCode(t, client); code != rpc.ClosePolicyViolation {
		t.Errorf("close code %d", code)
	}
}

// A late conn stops for a moment whenever a deadline is set, as a busy machine may.
type late struct {
	net.Conn
	by time.Duration
}

func (l *late) SetWriteDeadline(t time.Time) error {
	time.Sleep(l.by)
	return l.Conn.SetWriteDeadline(t)
}

// simulated returns the two ends of a WebSocket over a simulated network, for a bubble.
// wrap makes the connection that the client's end writes to. done ends the server.
func simulated(t *testing.T, wrap func(net.Conn) net.Conn) (server, client *websocket.Conn, done func()) {
	t.Helper()
	network := simnet.New(1)
	l, err := network.Host("server").Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *websocket.Conn, 1)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- ws
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	by := &websocket.Dialer{NetDialContext: func(ctx context.Context, way, addr string) (net.Conn, error) {
		conn, err := network.Host("client").Dial(ctx, way, addr)
		return wrap(conn), err
	}}
	client, resp, err := by.Dial("ws://server", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return <-accepted, client, func() {
		_ = srv.Close()
		<-served
	}
}

// A close frame is sent although the machine stops for a moment before it is written.
func TestCloseOnABusyMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, done := simulated(t, func(c net.Conn) net.Conn { return &late{c, closeWait + time.Millisecond} })
		_ = New(client, Config{}).Close()
		if code := closeCode(t, server); code != websocket.CloseNormalClosure {
			t.Errorf("close code %d", code)
		}
		done()
	})
}

// Who reads one long answer slowly is not taken for one that does not read, although others
// wait for its memory.
func TestSM4SlowReaderIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, pace = 64 << 20, 512 << 10 // it takes two minutes
		ws, client, done := simulated(t, func(c net.Conn) net.Conn { return c })
		budget := rpc.NewBudget(80 << 20)
		account := budget.NewAccount(func(reason string) { t.Error(reason) })
		account.Force(size)
		server := New(ws, Config{Unmasked: true})
		server.ReportTo(account)
		go func() {
			if err := server.Write(context.Background(), bytes.Repeat([]byte("x"), size)); err != nil {
				t.Error(err)
			}
			account.Give(size)
			account.Close()
		}()
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			other := budget.NewAccount(nil)
			defer other.Close()
			for other.Take(context.Background(), 40<<20) != nil { // and tries again
			}
			other.Give(40 << 20)
		}()
		_, r, err := client.NextReader()
		if err != nil {
			t.Fatal(err)
		}
		whole := 0
		for {
			n, err := io.CopyN(io.Discard, r, pace)
			whole += int(n)
			if err != nil {
				break
			}
			<-time.After(time.Second)
		}
		if whole != size {
			t.Errorf("%d bytes of %d came", whole, size)
		}
		<-waiting
		_ = server.Close()
		client.Close()
		done()
		<-time.After(2 * protocol.MemoryPatience) // the budget's watch ends
	})
}

// Nothing gets into a message that is written in parts: neither others, short and long, nor
// pings, pongs and the close frame.
func TestPartsStayTogether(t *testing.T) {
	server, client := dial(t, Config{PingInterval: time.Millisecond, Unmasked: true})
	server.ReportTo(rpc.NewBudget(1 << 30).NewAccount(nil))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer client.Close()
	defer server.Close()
	wg.Go(func() { // answers pings
		for {
			if _, err := server.Read(context.Background()); err != nil {
				return
			}
		}
	})
	var done atomic.Bool
	defer done.Store(true)
	wg.Go(func() {
		for !done.Load() && client.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(time.Minute)) == nil {
			runtime.Gosched()
		}
	})
	const each, writers = 12, 4
	sizes := []int{1, 1000, maxDirect, partSize, partSize + 1, 2 * partSize, 3<<20 + 7}
	var sent sync.WaitGroup
	for i := range writers {
		sent.Go(func() {
			for k := range each {
				msg := bytes.Repeat([]byte{byte('a' + i)}, sizes[(i+k)%len(sizes)])
				finish, err := server.TryWrite(msg)
				if finish != nil {
					err = finish()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		sent.Wait()
		for server.Write(context.Background(), bytes.Repeat([]byte("z"), 8<<20)) == nil { // until it is closed
		}
	})
	for got := 0; ; got++ {
		if got == each*writers+2 {
			wg.Go(func() { _ = server.CloseFault(rpc.CloseGoingAway, "going") })
		}
		_, msg, err := client.ReadMessage()
		if err != nil {
			if got < each*writers+2 {
				t.Errorf("after %d messages: %v", got, err)
			}
			return
		}
		if !slices.Contains(append(sizes, 8<<20), len(msg)) || bytes.Count(msg, msg[:1]) != len(msg) {
			t.Fatalf("a message of %d bytes is damaged", len(msg))
		}
	}
}

// A Read that waits returns at once, although the other end does not close in turn.
func TestCloseFaultUnblocksRead(t *testing.T) {
	quick := 0
	for range 20 {
		server, _ := dial(t, Config{})
		read := make(chan error, 1)
		go func() {
			_, err := server.Read(context.Background())
			read <- err
		}()
		began := time.Now()
		if err := server.CloseFault(rpc.CloseGoingAway, "going"); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if time.Since(began) < lingerTime/2 {
			quick++
		}
	}
	if quick == 0 {
		t.Error("never at once")
	}
}

func TestPings(t *testing.T) {
	_, client := dial(t, Config{PingInterval: 5 * time.Millisecond})
	pings := make(chan struct{}, 10)
	client.SetPingHandler(func(string) error {
		select {
		case pings <- struct{}{}:
		default:
		}
		return nil
	})
	go func() { _, _, _ = client.ReadMessage() }()
	for range 3 {
		<-pings
	}
}

// C-024: a ping is answered although a writer waits for the client to read, and
// reading goes on meanwhile.
func TestC024PongBesideAStalledWriter(t *testing.T) {
	server, client := dial(t, Config{})
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		msg := make([]byte, 16<<20) // more than the sockets hold
		_ = server.Write(context.Background(), msg)
	}()
	for len(server.writing) == 0 { // until the write has begun
		runtime.Gosched()
	}
	if err := client.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := client.WriteMessage(websocket.TextMessage, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if msg, err := server.Read(t.Context()); err != nil || string(msg) != "hi" {
		t.Fatalf("read beside a stalled writer: %q, %v", msg, err)
	}
	pong := make(chan string, 1)
	client.SetPongHandler(func(payload string) error { pong <- payload; return nil })
	go func() {
		for {
			if _, _, err := client.ReadMessage(); err != nil {
				return
			}
		}
	}()
	if got := <-pong; got != "x" {
		t.Errorf("pong %q", got)
	}
	<-wrote
}

func TestProbe(t *testing.T) {
	server, client := dial(t, Config{})
	go func() { _, _ = server.Read(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := server.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a mute client: %v", err)
	}
	go func() { _, _, _ = client.ReadMessage() }() // answers pings
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Probe(ctx); err != nil {
		t.Errorf("a live client: %v", err)
	}
}

// A binary message is an error after which reading goes on, where messages are text.
func TestBinaryIsSkipped(t *testing.T) {
	server, client := dial(t, Config{Text: true})
	go func() {
		_ = client.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<20))
		_ = client.WriteMessage(websocket.TextMessage, []byte("text"))
	}()
	if msg, err := server.Read(t.Context()); !errors.Is(err, ErrBinary) || msg != nil {
		t.Fatalf("got %q, %v", msg, err)
	}
	if msg, err := server.Read(t.Context()); err != nil || string(msg) != "text" {
		t.Fatalf("got %q, %v", msg, err)
	}
}

// Messages are no answer to a Ping, only its own pong is.
func TestPing(t *testing.T) {
	server, client := dial(t, Config{})
	messages := make(chan error, 2)
	go func() {
		for range 2 {
			_, err := server.Read(context.Background())
			messages <- err
		}
	}()
	pings := make(chan string, 1)
	client.SetPingHandler(func(payload string) error { pings <- payload; return nil })
	go func() { _, _, _ = client.ReadMessage() }() // has the handler called
	done := make(chan error, 1)
	go func() { done <- server.Ping(t.Context()) }()
	payload := <-pings
	for _, send := range []func() error{
		func() error { return client.WriteMessage(websocket.TextMessage, []byte("x")) },
		func() error {
			return client.WriteControl(websocket.PongMessage, []byte("another"), time.Now().Add(time.Minute))
		},
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-messages; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("answered by a message: %v", err)
	default:
	}
	if err := client.WriteControl(websocket.PongMessage, []byte(payload), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	server.Close()
	if err := server.Ping(t.Context()); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// A connection that closes gives back the memory of the latest message, though nobody
// reads on.
func TestSM4CloseGivesBack(t *testing.T) {
	budget := rpc.NewBudget(64 << 20)
	server, client := dial(t, Config{})
	server.Meter(budget.NewAccount(nil))
	if err := client.WriteMessage(websocket.TextMessage, make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if msg, err := server.Read(t.Context()); err != nil || len(msg) != 3<<20 || budget.Used() < 3<<20-protocol.FreeConnectionBytes {
		t.Fatalf("%d bytes, %v; %d are in use", len(msg), err, budget.Used())
	}
	server.Close()
	if used := budget.Used(); used != 0 {
		t.Errorf("%d bytes are in use after Close", used)
	}
	if _, err := server.Read(t.Context()); !errors.Is(err, rpc.ErrClosed) || budget.Used() != 0 {
		t.Errorf("%v; %d bytes are in use", err, budget.Used())
	}
}
