package relay_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
)

// taken is what a Taker was given.
type taken struct {
	msg string
	err error
}

func takes(into chan<- taken) rpc.Taker {
	return func(msg []byte, err error, _ *handoff.Turn) { into <- taken{string(msg), err} }
}

// What is awaited is taken once; what nobody awaits waits. The end is taken like a
// message.
func TestAwait(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		a, b := pair(t, p)
		got := make(chan taken, 10)
		if msg, err := b.Await(takes(got)); msg != nil || err != nil {
			t.Fatalf("got %q, %v before there is anything", msg, err)
		}
		for _, msg := range []string{"one", "two"} {
			if err := a.Write(context.Background(), []byte(msg)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if one := <-got; one.msg != "one" || one.err != nil || len(got) != 0 {
			t.Errorf("taken: %v, and %d more", one, len(got))
		}
		if msg, err := b.Await(takes(got)); string(msg) != "two" || err != nil {
			t.Errorf("what waits is %q, %v", msg, err)
		}
		if b.Forget() {
			t.Error("forgotten although nothing was awaited")
		}
		if _, err := b.Await(takes(got)); err != nil || !b.Forget() || b.Forget() {
			t.Errorf("what is awaited is not forgotten once; %v", err)
		}
		if err := a.Write(context.Background(), []byte("three")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if msg, err := b.Read(t.Context()); string(msg) != "three" || err != nil || len(got) != 0 {
			t.Errorf("Read: %q, %v, and %d taken", msg, err, len(got))
		}
		if _, err := b.Await(takes(got)); err != nil {
			t.Fatal(err)
		}
		_ = a.Close()
		synctest.Wait()
		if end := <-got; !errors.Is(end.err, io.EOF) || len(got) != 0 {
			t.Errorf("the end: %v, and %d more", end, len(got))
		}
		if _, err := b.Await(takes(got)); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// Close ends what is awaited.
func TestAwaitClose(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		_, b := pair(t, p)
		got := make(chan taken, 10)
		if _, err := b.Await(takes(got)); err != nil {
			t.Fatal(err)
		}
		_ = b.Close()
		if end := <-got; !errors.Is(end.err, rpc.ErrClosed) {
			t.Errorf("the end: %v", end)
		}
	})
}

// Handle lets a Taker hand off the turn, and holds no lock meanwhile.
func TestHandleHandsOff(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		ha, ex := transports(t)
		ca, cb := rpc.Pair()
		a := relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: ha, Carrier: ca})
		b := relay.NewStream(relay.StreamConfig{ID: "s", Profile: p, Transport: ex, Carrier: cb})
		defer func() {
			for _, c := range []rpc.Connection{a, b, ca, cb} {
				_ = c.Close()
			}
		}()
		for _, goOn := range []bool{true, false} {
			handedOff := 0
			if _, err := b.Await(func(_ []byte, _ error, turn *handoff.Turn) {
				_ = b.Info()
				if !goOn {
					turn.Message().HandOff()
				}
			}); err != nil {
				t.Fatal(err)
			}
			if err := a.Write(context.Background(), []byte("x")); err != nil {
				t.Fatal(err)
			}
			msg, err := cb.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f, err := frame.Decode(msg)
			if err != nil {
				t.Fatal(err)
			}
			turn := handoff.NewTurn(func() { handedOff++ })
			b.Handle(f, turn)
			if want := map[bool]int{true: 0, false: 1}[goOn]; turn.Held() != goOn || handedOff != want {
				t.Errorf("held: %v, handed off %d times; want %v, %d", turn.Held(), handedOff, goOn, want)
			}
		}
	})
}
