package execserver_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// resident is the memory of a process, in bytes; most is the most it ever had.
func resident(t *testing.T, pid int) (now, most int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.Atoi(fields[1])
		switch fields[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			most = kib << 10
		}
	}
	return now, most
}

// forgetMost makes the present memory of a process the most it ever had.
func forgetMost(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// TestC020: a big message ends in an unexplained disconnect.
func TestC020(t *testing.T) {
	t.Parallel()
	srv, dir := startServer(t, serverOptions{}), privateDir(t)
	stop := watchOther(t, srv.url, dir)
	defer stop()
	path := filepath.Join(dir, "big")
	params := object{"path": fileURI(path)}
	for _, mib := range []int{1, 11, 40} {
		data, text := pattern(mib)
		c := dial(t, srv.url)
		if f := writeBig(c, path, text); f == nil || f.Error != nil {
			t.Fatalf("write %d MiB: %v", mib, f)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d MiB are not what was written: %v", mib, err)
		}
		if f := c.call("fs/readFile", params); len(f.long) != 1 || string(f.long[0]) != text {
			t.Errorf("%d MiB are read otherwise than written", mib)
		}
		c.drop()
	}

	data, text := pattern(200)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	c := dial(t, srv.url)
	if f := c.call("fs/readFile", params); f.Error != nil {
		mustContain(t, f.Error, "fs/open")
	} else if len(f.long) != 1 || string(f.long[0]) != text {
		t.Error("200 MiB are read otherwise than they are")
	}
	c.drop()

	// A server that has not had big messages before, whose memory would still shrink.
	fresh := startServer(t, serverOptions{})
	_, before := resident(t, fresh.pid)
	c = dial(t, fresh.url)
	if f := writeBig(c, filepath.Join(dir, "huge"), text); f != nil {
		c.mustRefuse(f, "200 MiB in one message")
	} else if fault, ok := errors.AsType[*websocket.CloseError](c.closedByServer()); !ok || fault.Code != websocket.CloseMessageTooBig {
		t.Errorf("200 MiB in one message: ended by %v, want close code 1009", c.ended)
	}
	if _, most := resident(t, fresh.pid); most-before > memoryFactor*200<<20 {
		t.Errorf("memory grew by %d MiB", (most-before)>>20)
	} else {
		t.Logf("memory grew by %d MiB", (most-before)>>20)
	}
	mustFile(t, dir, "absent huge")

	c = dial(t, srv.url)
	c.refused("process/start", startParams("p1", fileURI(dir), []string{"true", strings.Repeat("x", 3<<20)}, nil), -32603)
	c.run("p2", dir, sh(`head -c 2000000 /dev/zero | tr '\0' x`), nil)
	var result readResult
	c.must("process/read", object{"processId": "p2", "maxBytes": nil}, &result)
	total := 0
	for _, chunk := range result.Chunks {
		total += len(chunk.Chunk)
	}
	if total < 1<<20-128<<10 || total > 1<<20 { // chunks are kept whole
		t.Errorf("%d bytes are retained", total)
	}
	c.alive(srv.url)
}

// pattern is so many MiB of data, and their base64, made without encoding them all.
func pattern(mib int) (data []byte, text string) {
	const unit = "0123456789abcd\n"
	n := mib << 20 / len(unit)
	rest := unit[:mib<<20-n*len(unit)]
	text = strings.Repeat(base64.StdEncoding.EncodeToString([]byte(unit)), n) + base64.StdEncoding.EncodeToString([]byte(rest))
	return append(bytes.Repeat([]byte(unit), n), rest...), text
}

// writeBig writes a file in one message. It returns nil when the connection ended.
func writeBig(c *client, path, text string) *frame {
	c.mu.Lock()
	c.asked["big"] = "fs/writeFile"
	c.mu.Unlock()
	message := append([]byte(`{"id":"big","method":"fs/writeFile","params":{"path":"`+fileURI(path)+`","dataBase64":"`), text...)
	_ = c.link.write(append(message, `"}}`...)) // its end shows in what is read
	var f *frame
	c.until("an answer or the end", func() bool {
		f = c.replies[`"big"`]
		delete(c.asked, "big")
		return f != nil || c.ended != nil
	})
	return f
}

// watchOther has another connection ask for something now and then, which must be
// answered quickly.
func watchOther(t *testing.T, url, dir string) (stop func()) {
	t.Helper()
	other := dial(t, url)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // stop waits for it
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			began := time.Now()
			id := other.send("fs/getMetadata", object{"path": fileURI(dir)})
			if err := other.wait(patience, func() bool { return other.replies[id] != nil }); err != nil {
				t.Errorf("the other connection: %v", err)
				return
			}
			if took := time.Since(began); took > slack*time.Second {
				t.Errorf("the other connection waited %v", took)
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-done
	})
}

// TestC023: a reader that stops reading.
func TestC023(t *testing.T) {
	t.Parallel()
	srv, dir := startServer(t, serverOptions{}), privateDir(t)
	a, b := dial(t, srv.url), dial(t, srv.url)
	b.run("warm", dir, []string{"true"}, nil)
	before, _ := resident(t, srv.pid)
	a.start("p1", dir, []string{"yes"}, nil)
	a.printed("p1", "y\n")
	resume := a.pause()
	defer resume()
	const seconds = 10
	most := 0
	for i := range seconds {
		<-time.After(time.Second) // the case's own rhythm
		began := time.Now()
		b.must("fs/getMetadata", object{"path": fileURI(dir)}, nil)
		if h := b.run(fmt.Sprintf("b%d", i), dir, []string{"echo", "hi"}, nil); string(h.output("")) != "hi\n" {
			t.Errorf("a short command prints %q", h.output(""))
		}
		if took := time.Since(began); took > slack*time.Second {
			t.Errorf("B waited %v", took)
		}
		now, _ := resident(t, srv.pid)
		most = max(most, now-before)
	}
	if most > memoryFactor*64<<20 {
		t.Errorf("memory grew by %d MiB", most>>20)
	}
	t.Logf("memory grew by %d KiB", most>>10)
	resume()
	if !a.terminate("p1") {
		t.Error("p1 was not running")
	}
	a.closed("p1") // the numbers have no gap, or this would have failed
	gone(t, dir)
}

// throttled is a connection that is read at most at a rate.
type throttled struct {
	net.Conn
	tick  *time.Ticker
	bytes int // a tick; changed to many by free
	mu    sync.Mutex
}

func (c *throttled) Read(p []byte) (int, error) {
	c.mu.Lock()
	limit := c.bytes
	c.mu.Unlock()
	if limit == 0 {
		return c.Conn.Read(p)
	}
	<-c.tick.C
	return c.Conn.Read(p[:min(len(p), limit)])
}

func (c *throttled) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes = 0
}

// TestC024: pings time out while output flows.
func TestC024(t *testing.T) {
	t.Parallel()
	url, dir := serve(t), privateDir(t)
	slow := &throttled{tick: time.NewTicker(10 * time.Millisecond), bytes: 20 << 10} // 2 MiB/s
	defer slow.tick.Stop()
	dialer := websocket.Dialer{ReadBufferSize: 32 << 10, NetDial: func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(256 << 10)
		}
		slow.Conn = conn
		return slow, err
	}}
	ws, response, err := dialer.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	pongs := make(chan string, 1)
	ws.SetPongHandler(func(payload string) error { pongs <- payload; return nil })
	c := newClient(t, &webSocketLink{ws: ws})
	c.must("initialize", object{"clientName": "cases"}, nil)
	c.sendRaw(`{"method":"initialized"}`)
	const size = 20 << 20 / fewer
	for i := range 4 {
		c.start(fmt.Sprintf("p%d", i), dir, sh(fmt.Sprintf("yes | head -c %d", size)), nil)
	}
	var requests []string
	for range 200 {
		requests = append(requests, c.send("fs/getMetadata", object{"path": fileURI(dir)}))
	}
	half := time.NewTicker(500 * time.Millisecond)
	defer half.Stop()
	for i := range 20 {
		<-half.C
		payload, began := strconv.Itoa(i), time.Now()
		if err := ws.WriteControl(websocket.PingMessage, []byte(payload), began.Add(patience)); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-pongs:
			if took := time.Since(began); got != payload || took > slack*time.Second {
				t.Errorf("ping %s: pong %q after %v", payload, got, took)
			}
		case <-time.After(patience):
			t.Fatalf("ping %s: no pong", payload)
		}
	}
	slow.free() // the rest of 80 MiB would take most of a minute
	for _, id := range requests {
		if f := c.await(id); f.Error != nil {
			t.Error(f.Error)
		}
	}
	for i := range 4 {
		if h := c.closed(fmt.Sprintf("p%d", i)); h.bytes != size {
			t.Errorf("p%d: %d bytes", i, h.bytes)
		}
	}
}

// TestC025: resuming past the end of the replay buffer.
func TestC025(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	h := c.run("p1", dir, sh(`head -c 3145728 /dev/zero | tr '\0' x`), nil)
	if h.bytes != 3145728 {
		t.Fatalf("%d bytes", h.bytes)
	}
	var result readResult
	c.must("process/read", object{"processId": "p1", "afterSeq": 1}, &result)
	if len(result.Chunks) == 0 {
		t.Fatal("nothing is retained")
	}
	oldest := result.Chunks[0].Seq
	if oldest <= 2 {
		t.Errorf("the oldest retained chunk is %d", oldest)
	}
	total := 0
	for i, got := range result.Chunks {
		if want := h.chunks[oldest-1+uint64(i)]; got.Seq != want.Seq || !bytes.Equal(got.Chunk, want.Chunk) {
			t.Fatalf("chunk %d is not that of the notifications", got.Seq)
		}
		total += len(got.Chunk)
	}
	if before := len(h.chunks[oldest-2].Chunk); total > 1<<20 || total+before <= 1<<20 {
		t.Errorf("%d bytes are retained", total)
	}
	var exact readResult
	c.must("process/read", object{"processId": "p1", "afterSeq": oldest - 1}, &exact)
	if len(exact.Chunks) != len(result.Chunks) || exact.Chunks[0].Seq != oldest {
		t.Errorf("a cursor at %d gives %d chunks from %d", oldest-1, len(exact.Chunks), exact.Chunks[0].Seq)
	}
}
