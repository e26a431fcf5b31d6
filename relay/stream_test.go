package relay_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// profiles are what most tests run with.
var profiles = []frame.Profile{frame.Codex, frame.Reliable}

// An end is a stream and what reads its carrier.
type end struct {
	*relay.Stream
	done chan struct{}
}

// transports makes both ends' of a handshake.
func transports(t testing.TB) (harness, executor *seal.Transport) {
	t.Helper()
	keys := make([]*seal.Identity, 2)
	for i := range keys {
		var err error
		if keys[i], err = seal.NewIdentity(); err != nil {
			t.Fatal(err)
		}
	}
	p := seal.Prologue{Label: seal.LabelCodex, EnvironmentID: "lab", RegistrationID: "r", StreamID: "s"}
	i, err := seal.NewInitiator(keys[0], keys[1].Public(), p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := seal.NewResponder(keys[1], p)
	if err != nil {
		t.Fatal(err)
	}
	m1, err := i.WriteMessage1(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ReadMessage1(m1); err != nil {
		t.Fatal(err)
	}
	m2, executor, err := r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	if harness, err = i.ReadMessage2(m2); err != nil {
		t.Fatal(err)
	}
	return harness, executor
}

// feed reads carrier for s until it ends.
func feed(s *relay.Stream, carrier relay.Carrier) *end {
	e := &end{s, make(chan struct{})}
	go func() {
		defer close(e.done)
		for {
			msg, err := carrier.Read(context.Background())
			if err != nil {
				return
			}
			if f, err := frame.Decode(bytes.Clone(msg)); err == nil {
				s.Handle(f, nil)
			}
		}
	}()
	return e
}

// pair makes two streams over a pair of carriers in memory.
func pair(t testing.TB, p frame.Profile) (a, b *end) {
	t.Helper()
	ha, ex := transports(t)
	ca, cb := rpc.Pair()
	a = feed(relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: ha, Carrier: ca}), ca)
	b = feed(relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: ex, Carrier: cb}), cb)
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
		_ = ca.Close()
		_ = cb.Close()
		<-a.done
		<-b.done
	})
	return a, b
}

func TestMessagesPass(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			a, b := pair(t, p)
			for _, n := range []int{1, 100, 61_440, 61_441, 300 << 10, 5 << 20} {
				want := bytes.Repeat([]byte{byte(n)}, n)
				sent := make(chan error, 1)
				go func() { sent <- a.Write(t.Context(), want) }()
				got, err := b.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("message of %d bytes arrived as %d others", n, len(got))
				}
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Read(t.Context()); err != io.EOF {
				t.Errorf("after the close of the other end Read returns %v", err)
			}
		})
	}
}
