package execserver_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// TestC017: request ids come back changed.
func TestC017(t *testing.T) {
	t.Parallel()
	url, dir := serve(t), privateDir(t)
	c := dial(t, url)
	request := func(id string) {
		c.sendRaw(`{"id":` + id + `,"method":"fs/getMetadata","params":{"path":"` + fileURI(dir) + `"}}`)
	}
	good := []string{"9007199254740993", "-9223372036854775808", "0", `"1"`, "1000001", `"1000001"`, `""`, `"a\u0000b"`}
	for _, id := range good {
		c.mu.Lock()
		c.asked[id] = "fs/getMetadata"
		c.mu.Unlock()
		request(id)
	}
	for _, id := range good {
		if f := c.await(id); f.Error != nil {
			t.Errorf("id %s: %v", id, f.Error)
		}
	}
	bad := []string{"18446744073709551616", "1.5", "1e3", "null", "true", "{}", "[1]", `1,"id":2`}
	for i, id := range bad {
		c.sendRaw(`{"id":` + id + `,"method":"fs/writeFile","params":{"path":"` + fileURI(dir) + `/x","dataBase64":""}}`)
		c.until("an error for id "+id, func() bool { return len(c.faults) == i+1 })
		c.mu.Lock()
		if fault := c.faults[i]; fault.Error == nil || fault.Error.Code != -32600 {
			t.Errorf("id %s: %s", id, fault.raw)
		}
		c.mu.Unlock()
	}
	mustFile(t, dir, "absent x")
	c.alive(url)
}

// TestC018: malformed and unexpected messages.
func TestC018(t *testing.T) {
	t.Parallel()
	url, dir := serve(t), privateDir(t)
	c := dial(t, url)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	tests := []struct {
		text string
		id   string // of the error
		code int
	}{
		{`{"id":101,"method":"no/such"}`, "101", -32601},
		{`{"id":102,"method":"process/start","params":[]}`, "102", -32602},
		{`{"id":103,"method":"process/start","params":{"processId":7}}`, "103", -32602},
		{`{"method":"process/terminate","params":{}}`, "-1", -32600},
		{`{"id":105}`, "105", -32600},
		{`[]`, "-1", -32600},
		{`[{"id":106,"method":"fs/getMetadata","params":{"path":"` + fileURI(dir) + `"}}]`, "-1", -32600},
		{`{`, "-1", -32600},
		{``, "-1", -32600},
		{`null`, "-1", -32600},
		{deep, "-1", -32600},
		// exec-rpc.md, section 0, has an answer to nothing answered; the case, ignored.
		{`{"id":4,"result":{}}`, "-1", -32600},
	}
	for _, test := range tests {
		c.mu.Lock()
		before := len(c.faults)
		c.mu.Unlock()
		c.sendRaw(test.text)
		var f *frame
		c.until(fmt.Sprintf("the error for %.60s", test.text), func() bool {
			if f = c.replies[test.id]; test.id == "-1" && len(c.faults) > before {
				f = c.faults[before]
			}
			return f != nil
		})
		if f.Error == nil || f.Error.Code != test.code {
			t.Errorf("%.60s: %s", test.text, f.raw)
		}
	}
	c.refused("initialize", object{"clientName": "again"}, -32600)
	c.alive(url)

	early := newClient(t, dialWebSocket(t, url))
	early.refused("fs/getMetadata", object{"path": fileURI(dir)}, -32600)
	early.must("initialize", object{"clientName": "late"}, nil)
	early.sendRaw(`{"method":"initialized"}`)
	early.alive(url)
}

// TestC019: one slow request blocks the connection.
func TestC019(t *testing.T) {
	url, dir := serve(t), privateDir(t)
	warm := dial(t, url)
	warm.run("p0", dir, []string{"true"}, nil)
	warm.drop()
	settle(t, 0)
	before := runtime.NumGoroutine()

	c := dial(t, url)
	c.start("p1", dir, []string{"sleep", "120"}, nil)
	var reads []string
	for range 8 {
		reads = append(reads, c.send("process/read", object{"processId": "p1", "waitMs": 60000}))
	}
	if f := c.awaitWithin(slack*time.Second/2, c.send("fs/getMetadata", object{"path": fileURI(dir)})); f.Error != nil {
		t.Error(f.Error)
	}
	c.awaitWithin(slack*time.Second/2, c.send("process/terminate", object{"processId": "p1"}))
	for _, id := range reads {
		var result readResult
		f := c.awaitWithin(slack*time.Second, id)
		if err := f.decode(&result); err != nil || !result.Exited && !result.Closed {
			t.Errorf("a read returned %s", f.raw)
		}
	}
	c.closed("p1")

	// The connection ends while reads wait.
	c.start("p2", dir, []string{"sleep", "120"}, nil)
	for range 8 {
		c.send("process/read", object{"processId": "p2", "waitMs": 60000})
	}
	c.must("process/terminate", object{"processId": "unknown"}, nil)
	c.drop()
	settle(t, before+12) // the detached session, its process p2 and the runtime's own
}

// settle waits until there are no more than n goroutines, or, for 0, until their number
// has stood still for a while.
func settle(t *testing.T, n int) {
	t.Helper()
	last, still := runtime.NumGoroutine(), 0
	eventually(t, fmt.Sprintf("%d goroutines", n), func() bool {
		now := runtime.NumGoroutine()
		if still++; now != last {
			last, still = now, 0
		}
		return n > 0 && now <= n || n == 0 && still > 20
	})
}

// TestC022: binary frames and broken UTF-8.
func TestC022(t *testing.T) {
	t.Parallel()
	url, dir := serve(t), privateDir(t)
	c := dial(t, url)
	c.link.mu.Lock()
	err := c.link.ws.WriteMessage(websocket.BinaryMessage, []byte(`{"id":"binary","method":"fs/getMetadata","params":{"path":"`+fileURI(dir)+`"}}`))
	c.link.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if f := c.await(`"binary"`); f.Error != nil {
		t.Errorf("a binary frame: %v", f.Error)
	}

	// A lone surrogate as processId: served consistently, or refused.
	c.sendRaw(`{"id":"lone","method":"process/start","params":{"processId":"\ud800","argv":["true"],"cwd":"` + fileURI(dir) + `","env":{},"tty":false}}`)
	c.until("an answer to the surrogate", func() bool { return c.replies[`"lone"`] != nil || len(c.faults) > 0 })

	// Names and error texts with the byte ff.
	mustFile(t, dir, `write "a\xff" x`)
	var listing struct{ Entries []struct{ FileName string } }
	c.must("fs/readDirectory", object{"path": fileURI(dir)}, &listing)
	if len(listing.Entries) != 1 {
		t.Errorf("the listing has %d entries", len(listing.Entries))
	}
	c.refused("process/start", startParams("p1", fileURI(dir)+"/no%FF", []string{"true"}, nil), -32603)
	c.refused("process/start", startParams("p1", fileURI(dir)+"/a%FF", []string{"true"}, nil), -32603)
	c.alive(url)

	// The byte ff inside a JSON string.
	c.mu.Lock()
	before := len(c.faults)
	c.mu.Unlock()
	c.sendRaw("{\"id\":1000,\"method\":\"fs/getMetadata\",\"params\":{\"path\":\"file:///\xff\"}}")
	c.until("an error for the byte ff", func() bool { return len(c.faults) > before })
	c.alive(url)
}
