package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// A connection that has not gone through the handshake in time is closed, whatever else it
// sends; one that has may be silent.
func TestSL6MuteConnectionsAreClosed(t *testing.T) {
	for name, talk := range map[string]func(c *client){
		"mute":       func(*client) {},
		"pings":      func(c *client) { c.send(`{"id":1,"method":"fs/getMetadata","params":{"path":"p"}}`); c.receive() },
		"initialize": func(c *client) { c.initialize("") },
		"unknown session": func(c *client) {
			c.send(initializeRequest("no such session"))
			c.receive()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{SessionGrace: -1}, func(t *testing.T, w *world) {
				c, good := w.dial(ConnectionOptions{}), w.dial(ConnectionOptions{})
				good.open("")
				talk(c)
				advance(protocol.InitializeTimeout - time.Second)
				if n := w.Stats().Connections; n != 2 {
					t.Fatalf("%d connections before the time is over", n)
				}
				advance(2 * time.Second)
				c.ended()
				advance(time.Hour)
				good.ping()
			})
		})
	}
}

// The other end of a stdio server is its parent, which may take its time.
func TestSL6ParentMayWait(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{Parent: true})
		advance(time.Hour)
		c.send(`{"id":1,"method":"initialize","params":{"clientName":"` + strings.Repeat("n", protocol.MaxFirstMessageBytes) + `"}}`)
		c.sessionID(c.receive())
		synctest.Wait()
	})
}

// Before initialize messages are short, on a connection that counts as it reads and on
// one that does not.
func TestSM4FirstMessagesAreShort(t *testing.T) {
	long := `{"id":1,"method":"fs/getMetadata","params":{"path":"` + strings.Repeat("p", protocol.MaxFirstMessageBytes) + `"}}`
	t.Run("Pair", func(t *testing.T) {
		bubble(t, Config{}, func(_ *testing.T, w *world) {
			c := w.dial(ConnectionOptions{})
			c.send(long)
			c.ended()
		})
	})
	t.Run("WebSocket", func(t *testing.T) {
		w := newWorld(t, Config{})
		addr := w.listen(HTTPConfig{})
		f := dialFrames(t, addr)
		f.write(frame(opText, long[:protocol.MaxFirstMessageBytes+1])) // and no end
		if code, reason := f.closed(); code != 1009 {
			t.Errorf("closed with %d %q", code, reason)
		}
		good := webSocket(t, addr)
		good.open("")
		good.send(long)
		if got := good.receive(); !strings.Contains(got, "pppp") {
			t.Errorf("after initialize: %.100s", got)
		}
	})
}
