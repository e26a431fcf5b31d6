package raw

import (
	"errors"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		raw    string
		method string
		id     int64
		failed bool
	}{
		{`{"method":"process/closed","params":{"processId":"p"}}`, "process/closed", 0, false},
		{`{"id":7,"result":{"method":"no"}}`, "", 7, false},
		{`{"error":{"code":-32600,"message":"m"},"id":-1}`, "", -1, true},
		{`{"jsonrpc":"2.0","id":3,"result":{}}`, "", 3, false},
		{`{"params":{},"method":"late"}`, "late", 0, false},
	} {
		m, err := parse([]byte(tt.raw))
		if err != nil || m.Method != tt.method || m.ID != tt.id || m.Failed != tt.failed {
			t.Errorf("%s: %+v, %v", tt.raw, m, err)
		}
	}
	if _, err := parse([]byte("{oops")); err == nil {
		t.Error("what is no JSON passes")
	}
}

func TestMessageFields(t *testing.T) {
	m := Message{Raw: []byte(`{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"pty","chunk":"aGkNCg=="}}`)}
	if got := string(m.Text("processId")); got != "p1" {
		t.Errorf("processId %q", got)
	}
	if got := m.Text("absent"); got != nil {
		t.Errorf("absent %q", got)
	}
	if got := m.DataBytes("chunk"); got != 4 {
		t.Errorf("%d bytes in the chunk", got)
	}
	var p struct {
		Seq   int
		Chunk []byte
	}
	if err := m.Decode(&p); err != nil || p.Seq != 1 || string(p.Chunk) != "hi\r\n" {
		t.Errorf("%+v, %v", p, err)
	}
}

// respond answers each request, in turn, with what reply makes of it.
func respond(reply func(request string) []string) func(*websocket.Conn) {
	return func(c *websocket.Conn) {
		for {
			_, msg, err := c.ReadMessage()
			if err != nil {
				return
			}
			for _, r := range reply(string(msg)) {
				if c.WriteMessage(websocket.TextMessage, []byte(r)) != nil {
					return
				}
			}
		}
	}
}

func TestCall(t *testing.T) {
	c := dialTest(t, serve(t, respond(func(request string) []string {
		if !strings.HasPrefix(request, `{"id":1,"method":"double","params":{"n":2}`) {
			return []string{`{"error":{"code":-32601,"message":"unknown","data":{"kind":"k"}},"id":2}`}
		}
		return []string{`{"method":"aside","params":{}}`, `{"id":1,"result":{"n":4}}`}
	})))
	var aside []string
	c.OnNotify = func(m Message) { aside = append(aside, m.Method) }
	var got struct{ N int }
	if err := c.Call("double", map[string]int{"n": 2}, &got); err != nil || got.N != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if len(aside) != 1 || aside[0] != "aside" {
		t.Errorf("notifications %v", aside)
	}
	var failure *WireError
	if err := c.Call("other", nil, nil); !errors.As(err, &failure) || failure.Code != -32601 || string(failure.Data) != `{"kind":"k"}` {
		t.Errorf("other: %v", err)
	}
}

func TestCallOutOfStep(t *testing.T) {
	c := dialTest(t, serve(t, respond(func(string) []string { return []string{`{"id":9,"result":{}}`} })))
	if err := c.Call("x", nil, nil); err == nil || !strings.Contains(err.Error(), "answer to 9") {
		t.Errorf("Call: %v", err)
	}
}

func TestInitialize(t *testing.T) {
	requests := make(chan string, 2)
	c := dialTest(t, serve(t, respond(func(request string) []string {
		requests <- request
		if strings.Contains(request, `"initialize"`) {
			return []string{`{"id":1,"result":{"sessionId":"s"}}`}
		}
		return nil
	})))
	id, err := c.Initialize("old")
	if err != nil || id != "s" {
		t.Fatalf("%q, %v", id, err)
	}
	if r := <-requests; !strings.Contains(r, `"resumeSessionId":"old"`) {
		t.Errorf("initialize: %s", r)
	}
	if r := <-requests; r != `{"method":"initialized","params":{}}` {
		t.Errorf("then: %s", r)
	}
}
