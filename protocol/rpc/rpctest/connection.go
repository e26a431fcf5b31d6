// Package rpctest is the conformance suite of rpc.Connection, which every implementation
// runs, and a Conversation for tests of services: what a client says, and hears.
package rpctest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// patience bounds what must happen at once.
const patience = 10 * time.Second

// TestConnection runs the suite. open returns the two ends of a fresh connection;
// it registers whatever clean-up they need beyond their Close.
func TestConnection(t *testing.T, open func(t *testing.T) (a, b rpc.Connection)) {
	t.Run("WholeMessagesInOrder", func(t *testing.T) { testOrder(t, open) })
	t.Run("LargeMessage", func(t *testing.T) { testLarge(t, open) })
	t.Run("ConcurrentWritersDoNotMix", func(t *testing.T) { testWriters(t, open) })
	t.Run("WriteDoesNotKeepTheMessage", func(t *testing.T) { testNoRetention(t, open) })
	t.Run("CloseEndsThePeersRead", func(t *testing.T) { testEOF(t, open) })
	t.Run("CloseUnblocksReadAndWrite", func(t *testing.T) { testUnblock(t, open) })
	t.Run("ContextEnds", func(t *testing.T) { testContext(t, open) })
	t.Run("CloseTwice", func(t *testing.T) { testCloseTwice(t, open) })
}

type openFunc func(t *testing.T) (a, b rpc.Connection)

func pair(t *testing.T, open openFunc) (a, b rpc.Connection) {
	t.Helper()
	a, b = open(t)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func read(t *testing.T, c rpc.Connection) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	msg, err := c.Read(ctx)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return bytes.Clone(msg)
}

func send(t *testing.T, c rpc.Connection, msgs ...[]byte) {
	t.Helper()
	for _, msg := range msgs {
		if err := c.Write(t.Context(), msg); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
}

func testOrder(t *testing.T, open openFunc) {
	a, b := pair(t, open)
	msgs := [][]byte{[]byte(`{"a":1}`), []byte(`"é€"`), []byte(`[]`), bytes.Repeat([]byte("x"), 5000), []byte(`{}`)}
	send(t, a, msgs...)
	for i, want := range msgs {
		if got := read(t, b); !bytes.Equal(got, want) {
			t.Errorf("message %d: got %.40q, want %.40q", i, got, want)
		}
	}
	send(t, b, []byte("back"))
	if got := read(t, a); string(got) != "back" {
		t.Errorf("got %q", got)
	}
}

func testLarge(t *testing.T, open openFunc) {
	a, b := pair(t, open)
	rng := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, 20<<20)
	for i := range want {
		want[i] = byte('a' + rng.IntN(26))
	}
	done := make(chan error, 1)
	go func() { done <- a.Write(context.Background(), want) }()
	if got := read(t, b); !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived changed", len(got))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func testWriters(t *testing.T, open openFunc) {
	a, b := pair(t, open)
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			msg := bytes.Repeat([]byte{byte('a' + w)}, 100+w*1000)
			for range each {
				if err := a.Write(context.Background(), msg); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	counts := map[byte]int{}
	for range writers * each {
		msg := read(t, b)
		if len(msg) != 100+int(msg[0]-'a')*1000 || len(bytes.Trim(msg, string(msg[0]))) != 0 {
			t.Fatalf("mixed message %.20q of %d bytes", msg, len(msg))
		}
		counts[msg[0]]++
	}
	wg.Wait()
	for w := range writers {
		if n := counts[byte('a'+w)]; n != each {
			t.Errorf("writer %d: %d messages", w, n)
		}
	}
}

func testNoRetention(t *testing.T, open openFunc) {
	a, b := pair(t, open)
	msg := []byte("first")
	send(t, a, msg)
	copy(msg, "other")
	if got := read(t, b); string(got) != "first" {
		t.Errorf("got %q", got)
	}
}

func testEOF(t *testing.T, open openFunc) {
	a, b := pair(t, open)
	send(t, a, []byte("last"))
	if got := read(t, b); string(got) != "last" {
		t.Errorf("got %q", got)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.Read(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF", err)
	}
}

func testUnblock(t *testing.T, open openFunc) {
	a, _ := pair(t, open)
	errs := make(chan error, 2)
	go func() {
		_, err := a.Read(context.Background())
		errs <- err
	}()
	go func() { // the other end does not read: this blocks before long
		msg := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if err := a.Write(context.Background(), msg); err != nil {
				errs <- err
				return
			}
		}
	}()
	a.Close()
	for range 2 {
		select {
		case err := <-errs:
			if err == nil {
				t.Error("no error after Close")
			}
		case <-time.After(patience):
			t.Fatal("still blocked after Close")
		}
	}
}

func testContext(t *testing.T, open openFunc) {
	a, b := pair(t, open)
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := a.Read(ctx); !errors.Is(err, reason) {
		t.Errorf("read: %v, want the context's cause", err)
	}
	for range 20 { // a select takes either
		if err := a.Write(ctx, []byte("too late")); !errors.Is(err, reason) {
			t.Fatalf("write: %v, want the context's cause", err)
		}
	}
	send(t, a, []byte("in time"))
	if got := read(t, b); string(got) != "in time" {
		t.Errorf("read %q", got)
	}
}

func testCloseTwice(t *testing.T, open openFunc) {
	a, _ := pair(t, open)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := a.Read(t.Context()); err == nil {
		t.Error("read after Close succeeded")
	}
	if err := a.Write(t.Context(), []byte("x")); err == nil {
		t.Error("write after Close succeeded")
	}
}
