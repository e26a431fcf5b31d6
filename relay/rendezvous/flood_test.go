package rendezvous_test

import (
	"context"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// A token that floods an executor with bad handshakes shuts out nobody but itself.
func TestHandshakeFlood(t *testing.T) {
	w := newWorld(t, nil)
	w.echo(identity(t))
	w.connect(identity(t)) // the executor is there
	bad := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: lab}))
	flood := make([]relay.Carrier, 0, 4)
	for range cap(flood) {
		resp, err := bad.Connect(t.Context(), lab, identity(t).Public())
		if err != nil {
			t.Fatal(err)
		}
		c, err := relay.Dial(t.Context(), resp.URL, relay.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		flood = append(flood, c)
	}
	for i, c := range flood {
		for j := range 25 {
			m, err := frame.Append(nil, &relayv1.RelayMessageFrame{
				Version: frame.Version, StreamId: string(rune('a'+i)) + string(rune('a'+j)),
				Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: make([]byte, 4000)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.Write(t.Context(), m) != nil {
				break // it has been closed by now
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := w.harness("").Connect(ctx)
	if err != nil {
		t.Fatalf("an honest harness is shut out: %v", err)
	}
	defer conn.Close()
	for _, c := range flood {
		for {
			if _, err := c.Read(ctx); err != nil {
				break
			}
		}
	}
	if ctx.Err() != nil {
		t.Error("the sockets of the flood go on")
	}
	if _, err := bad.Connect(t.Context(), lab, identity(t).Public()); err == nil {
		t.Error("the token need not pause")
	} else if got, code := status(t, err); got != 429 {
		t.Errorf("connect of a token that pauses: %d %s", got, code)
	}
}
