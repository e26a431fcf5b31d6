package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol"
)

// C-019: waiting requests hold up nothing, and end with what they wait for or with
// their connection.
func TestC019SlowRequests(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	c := webSocket(t, addr)
	c.open("")
	began := time.Now()
	waits := func() {
		for i := range 40 { // more than run at a time
			c.send(fmt.Sprintf(`{"id":%d,"method":"process/read","params":{"processId":"p","waitMs":600000}}`, i))
		}
	}
	waits()
	c.ping()
	c.send(`{"id":"t","method":"process/terminate","params":{"processId":"p"}}`)
	for range 41 {
		c.receive()
	}
	if took := time.Since(began); took > patience {
		t.Errorf("took %v", took)
	}

	c = webSocket(t, addr)
	c.open("")
	waits()
	c.ping()
	c.conn.Close()
	eventually(t, "the requests of the closed connection have ended", func() bool { return w.Stats().Connections == 1 })
}

// C-023: a reader that stops costs a bounded amount of memory and nobody else's
// time; when it reads again, nothing is missing.
func TestC023StalledReader(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	a, b := dialFrames(t, addr), webSocket(t, addr)
	a.open()
	b.open("")
	before := heap()
	a.write(frame(bitFin|opText, `{"id":1,"method":"process/start","params":{"processId":"p","argv":["yes"]}}`))
	stalled := func() int {
		p := w.process(0)
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.log)
	}
	for last := -1; last != stalled() || last == 0; { // until the producer is held back
		last = stalled()
		for range 100 {
			b.ping()
		}
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("a stalled reader costs %d KiB", grown>>10)
	}
	if queued := stalled() * len(base64Chunk); queued > 2<<20 {
		t.Errorf("%d KiB are queued for a stalled reader", queued>>10)
	}

	held := uint64(stalled())
	for next := uint64(0); next <= held+100; {
		_, text := a.read()
		var msg struct {
			Method string
			Params outputParams
		}
		if err := json.Unmarshal([]byte(text), &msg); err != nil {
			t.Fatal(err)
		}
		if msg.Method == "" {
			continue // the answer to process/start
		}
		if next++; msg.Params.Seq != next {
			t.Fatalf("%d instead of %d", msg.Params.Seq, next)
		}
	}
	a.write(frame(bitFin|opText, `{"id":2,"method":"process/terminate","params":{"processId":"p"}}`))
	for {
		if _, text := a.read(); text == `{"id":2,"result":{}}` {
			break
		}
	}
}

// base64Chunk is what "yes" notifies, as it is on the wire.
var base64Chunk = base64.StdEncoding.EncodeToString(make([]byte, 8<<10))

func heap() int64 {
	runtime.GC()
	runtime.GC() // pools let go of what they hold at the second only
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A client that asks and never reads is not read from for ever.
func TestUnreadAnswersAreBounded(t *testing.T) {
	w := newWorld(t, Config{})
	f := dialFrames(t, w.listen(HTTPConfig{}))
	f.open()
	before := heap()
	request := frame(bitFin|opText, `{"id":1,"method":"test/big"}`) // answered by 64 KiB
	_ = f.conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	var err error
	for sent := 0; err == nil && sent < 64<<20; sent += len(request) {
		_, err = f.conn.Write(request)
	}
	if err == nil {
		t.Error("64 MiB of requests were read although no answer was")
	}
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("grew by %d MiB", grown>>20)
	}
}

// C-024: pings are answered while output flows to a reader that is slow.
func TestC024PingsBesideOutput(t *testing.T) {
	w := newWorld(t, Config{})
	ws, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+w.listen(HTTPConfig{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer ws.Close()
	pongs := make(chan string, 100)
	ws.SetPongHandler(func(payload string) error { pongs <- payload; return nil })
	write := func(text string) {
		if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Error(err)
		}
	}
	write(initializeRequest(""))
	write(`{"method":"initialized"}`)
	for i := range 4 {
		write(fmt.Sprintf(`{"id":"start","method":"process/start","params":{"processId":"p%d","argv":["yes"]}}`, i))
	}
	const requests, pings = 200, 10
	go func() {
		for i := range requests {
			write(fmt.Sprintf(`{"id":%d,"method":"fs/getMetadata","params":{"path":"p"}}`, i))
		}
	}()
	answers, slow := 0, time.NewTicker(time.Millisecond)
	defer slow.Stop()
	for answered, asked := 0, -1; answered < pings || answers < requests; {
		if asked < answered && answered < pings {
			asked++
			if err := ws.WriteControl(websocket.PingMessage, fmt.Append(nil, asked), time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
		}
		<-slow.C
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		_, text, err := ws.ReadMessage()
		if err != nil {
			t.Fatalf("after %d pongs and %d answers: %v", answered, answers, err)
		}
		if !json.Valid(text) {
			t.Fatalf("no JSON: %.100q", text)
		}
		if strings.HasSuffix(string(text), `"result":{"path":"p"}}`) {
			answers++
		}
		select {
		case payload := <-pongs:
			if payload != fmt.Sprint(answered) {
				t.Fatalf("pong %q instead of %d", payload, answered)
			}
			answered++
		default:
		}
	}
}

// Connections cut at any byte leave nothing behind but their session.
func TestCutAnywhere(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, Config{SessionGrace: time.Millisecond})
	addr := w.listen(HTTPConfig{})
	stream := []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + upgrade + "\r\n")
	for _, msg := range []string{
		initializeRequest(""), `{"method":"initialized"}`,
		`{"id":1,"method":"process/start","params":{"processId":"p","argv":["yes"]}}`,
		`{"id":2,"method":"process/read","params":{"processId":"p","waitMs":600000}}`,
		`{"id":3,"method":"test/big"}`,
	} {
		stream = append(stream, frame(bitFin|opText, msg)...)
	}
	goroutines := runtime.NumGoroutine()
	for range 200 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(stream[:rng.IntN(len(stream)+1)]); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 { // with a reset
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		if n := rng.IntN(64 << 10); n%2 == 0 { // after some of the answers
			_ = conn.SetReadDeadline(time.Now().Add(time.Duration(n) * time.Microsecond / 64))
			_, _ = conn.Read(make([]byte, n+1))
		}
		conn.Close()
	}
	c := webSocket(t, addr)
	c.open("")
	c.ping()
	eventually(t, "the cut connections have ended", func() bool {
		stats := w.Stats()
		return stats.Connections == 1 && stats.SessionsDetached == 0 && stats.SessionsAttached == 1
	})
	eventually(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines+8 })
}

// An idle connection that went through the handshake is cheap. What is measured is
// heap and stacks of both ends; the clients are bare sockets.
func TestIdleConnectionsAreCheap(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	dialFrames(t, addr).open()
	const n = 300
	before := inUse()
	for range n {
		f := dialFrames(t, addr)
		f.open()
		f.r = nil
	}
	each := (inUse() - before) / n
	t.Logf("%d KiB a connection, both ends", each>>10)
	if each > 64<<10 {
		t.Errorf("%d KiB an idle connection", each>>10)
	}
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// With Concurrency 1 requests run one by one, as the original's do.
func TestConcurrencyOfOne(t *testing.T) {
	bubble(t, Config{Concurrency: 1}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{})
		c.open("")
		for i := range 50 {
			c.send(fmt.Sprintf(`{"id":%d,"method":"fs/getMetadata","params":{"path":"p"}}`, i))
			if i >= 10 {
				c.want(fmt.Sprintf(`{"id":%d,"result":{"path":"p"}}`, i-10))
			}
		}
	})
}

// A connection answers with everything it read, when told to, although its input has
// ended.
func TestAnswerAll(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dialHalf()
		c.open("")
		c.send(`{"id":1,"method":"process/read","params":{"processId":"p","waitMs":5000}}`, `{"id":2,"method":"fs/getMetadata","params":{"path":"p"}}`)
		c.conn.(*half).end()
		c.want(`{"id":2,"result":{"path":"p"}}`)
		c.want(`{"id":1,"result":{"seqs":[]}}`)
		if err := c.outcome(); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// Requests that would run too long after the end of the input answer with what they
// have.
func TestAnswerAllIsBounded(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dialHalf()
		c.open("")
		c.send(`{"id":1,"method":"process/read","params":{"processId":"p","waitMs":3600000}}`)
		began := time.Now()
		c.conn.(*half).end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if msg, err := c.conn.Read(ctx); err != nil || string(msg) != `{"id":1,"result":{"seqs":[]}}` {
			t.Errorf("got %s, %v", msg, err)
		}
		if took := time.Since(began); took != protocol.DrainTimeout {
			t.Errorf("took %v", took)
		}
	})
}
