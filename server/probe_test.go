package server

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// A client that vanished without closing its TCP loses its session to the connection
// that resumes it; the retries of the real client, every 100 ms, succeed.
func TestHalfDeadWebSocket(t *testing.T) {
	t.Parallel() // most of it is waiting
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	dead := dialFrames(t, addr) // reads nothing from here on, and answers no ping
	dead.write(frame(bitFin|opText, initializeRequest("")))
	_, answer := dead.read()
	id := (&client{t: t}).sessionID(answer)

	began := time.Now()
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	refused := 0
	for ; ; <-retry.C {
		c := webSocket(t, addr)
		c.send(initializeRequest(id))
		var env struct{ Error *protocol.Error }
		if err := json.Unmarshal([]byte(c.receive()), &env); err != nil {
			t.Fatal(err)
		}
		if env.Error == nil {
			c.send(`{"method":"initialized"}`)
			c.ping()
			break
		}
		if env.Error.Code != protocol.CodeSessionAttached {
			t.Fatal(env.Error)
		}
		c.conn.Close()
		refused++
		if time.Since(began) > patience {
			t.Fatal("the session was never free")
		}
	}
	if took := time.Since(began); took < protocol.ProbeTimeout || refused == 0 {
		t.Errorf("the session was taken after %v and %d refusals", took, refused)
	}
	for { // the pings, one for each probe, and then why
		if op, payload := dead.read(); op == opClose {
			if code := int(payload[0])<<8 | int(payload[1]); code != 1008 || len(payload) == 2 {
				t.Errorf("closed with %d %q", code, payload[2:])
			}
			return
		}
	}
}

// A client that is alive answers the ping and keeps its session.
func TestLiveWebSocketKeepsItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	f := dialFrames(t, addr)
	f.write(frame(bitFin|opText, initializeRequest("")))
	_, answer := f.read()
	id := (&client{t: t}).sessionID(answer)
	f.write(frame(bitFin|opText, `{"method":"initialized"}`))

	c := webSocket(t, addr)
	for range 3 {
		c.send(initializeRequest(id))
		c.wantError(`"init"`, protocol.CodeSessionAttached)
		if op, payload := f.read(); op != opPing {
			t.Fatalf("opcode %x instead of a ping", op)
		} else {
			f.write(frame(bitFin|opPong, payload))
		}
		request, answer := metadata(1, "p")
		f.write(frame(bitFin|opText, request))
		f.want(answer)
		eventually(t, "the probe has ended", func() bool { return !w.probes() }) // or the next would be none
	}
}

// probes reports whether a connection is being probed.
func (w *world) probes() bool {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	for c := range w.conns {
		if c.probing.Load() {
			return true
		}
	}
	return false
}
