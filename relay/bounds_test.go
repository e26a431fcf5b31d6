package relay_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// A reader that does not read bounds what both ends hold, and then holds up the writer:
// by the window, or in the codex profile by the socket.
func TestSlowReaderBoundsMemory(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		s := script{1, 1500, 60_000}
		wrote := make(chan error, 1)
		go func() { wrote <- s.write(context.Background(), l.a.Stream) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-wrote:
			t.Fatalf("the writer does not wait: %v", err)
		default:
		}
		a, b := l.a.Info(), l.b.Info()
		if held := a.Cursors.Sent - a.Cursors.Acked; held > arq.MaxSegments {
			t.Errorf("the sender holds %d segments", held)
		}
		most := relay.MaxWaiting
		if p == frame.Reliable {
			most = arq.MaxSegments
		}
		if b.Waiting > most || b.Waiting < most/2 {
			t.Errorf("%d messages wait to be read, want about %d", b.Waiting, most)
		}
		if err := s.read(t.Context(), l.b.Stream); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	})
}

// Who must not hold up its socket for one stream resets the stream that is not read: the
// codex profile's 129th message.
func TestCodexOverflow(t *testing.T) {
	ta, tb := transports(t)
	ca, cb := rpc.Pair()
	a := relay.NewStream(relay.StreamConfig{ID: "s", Profile: frame.Codex, Transport: ta, Carrier: ca})
	b := relay.NewStream(relay.StreamConfig{ID: "s", Profile: frame.Codex, Transport: tb, Carrier: cb})
	attend(t, a, ca)
	feed(b, cb)
	for n := range arq.CodexMessages + 1 {
		if err := a.Write(t.Context(), []byte{byte(n)}); err != nil && (n < arq.CodexMessages || !isReset(err)) {
			t.Fatal(err)
		}
	}
	<-a.Done()
	<-b.Done()
	if !isReset(a.Err()) || !isProtocolError(b.Err()) {
		t.Errorf("ended by %v and %v", a.Err(), b.Err())
	}
	for n := range arq.CodexMessages {
		if msg, err := b.Read(t.Context()); err != nil || !bytes.Equal(msg, []byte{byte(n)}) {
			t.Fatalf("message %d: %x, %v", n, msg, err)
		}
	}
}

// What a peer says of a message that it does not send takes no memory, and of one that
// is too long ends the stream.
func TestForgedFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Reliable, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		for _, raw := range [][]byte{nil, {1}, []byte("text"), bytes.Repeat([]byte{0xff}, 1000), make([]byte, frame.MaxBytes)} {
			l.b.far.Inject(raw)
		}
		l.exchange(script{1, 50, 100_000}, script{2, 50, 100_000})
	})
}
