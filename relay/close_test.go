package relay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// each runs a test with both profiles, in a bubble.
func each(t *testing.T, test func(t *testing.T, p frame.Profile)) {
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, p) })
		})
	}
}

// What was written before Close arrives before the end, and the end is io.EOF.
func TestCloseAfterWrites(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		s := script{1, 50, 200_000}
		go func() {
			if err := s.write(context.Background(), l.a.Stream); err != nil {
				t.Error(err)
			}
			if err := l.a.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := s.read(t.Context(), l.b.Stream); err != nil {
			t.Fatal(err)
		}
		if _, err := l.b.Read(t.Context()); err != io.EOF {
			t.Errorf("Read: %v", err)
		}
		if err := l.b.Write(t.Context(), []byte("x")); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("Write: %v", err)
		}
		synctest.Wait()
		for _, p := range []*party{l.a, l.b} {
			if ends := p.ends(); len(ends) != 1 || ends[0] == nil {
				t.Errorf("OnEnd of %s was told %v", p.name, ends)
			}
		}
	})
}

// A reset for any other reason is an error at the other end, after what had come.
func TestResetIsAnError(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		if err := l.a.Write(t.Context(), []byte("last")); err != nil {
			t.Fatal(err)
		}
		l.a.Reset("given_up")
		<-l.b.Done()
		if msg, err := l.b.Read(t.Context()); err != nil || string(msg) != "last" {
			t.Errorf("%q, %v", msg, err)
		}
		_, err := l.b.Read(t.Context())
		if reset, ok := errors.AsType[*arq.ResetError](err); !ok || reset.Reason != "given_up" {
			t.Errorf("Read: %v", err)
		}
		if _, err := l.a.Read(t.Context()); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("Read of the one that reset: %v", err)
		}
	})
}

// CloseFault tells the peer what kind of fault it was, and no more: whoever is in
// between can read it.
func TestCloseFault(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		if err := l.a.CloseFault(rpc.ClosePolicyViolation, "a secret reason"); err != nil {
			t.Fatal(err)
		}
		_, err := l.b.Read(t.Context())
		if reset, ok := errors.AsType[*arq.ResetError](err); !ok || reset.Reason != "policy_violation" {
			t.Errorf("Read: %v", err)
		}
	})
}

// blocked makes l.a's writers wait: the other end does not read. It returns the error
// that a Write which waits will return.
func (l *line) blocked(ctx context.Context) <-chan error {
	l.b.stall()
	done := make(chan error, 1)
	go func() {
		msg := bytes.Repeat([]byte("x"), 50_000)
		for {
			if err := l.a.Write(ctx, msg); err != nil {
				done <- err
				return
			}
		}
	}()
	synctest.Wait()
	time.Sleep(10 * time.Second) // a resend or two
	synctest.Wait()
	select {
	case err := <-done:
		l.t.Fatalf("the writer does not wait: %v", err)
	default:
	}
	return done
}

// Close ends a Write that waits for the window, or in the socket, and what it has to
// say to the peer does not keep it.
func TestCloseWhileBlocked(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		done := l.blocked(context.Background())
		read := make(chan error, 1)
		go func() {
			_, err := l.a.Read(context.Background())
			read <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := l.a.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("Write: %v", err)
		}
		if err := <-read; !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("Read: %v", err)
		}
		if took := time.Since(began); took > relay.CloseTimeout+time.Millisecond {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		if ends := l.a.ends(); len(ends) != 1 {
			t.Errorf("OnEnd was told %v", ends)
		}
	})
}

// Detach does not wait for a write that hangs, nor does Attach.
func TestDetachWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Reliable, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		done := l.blocked(context.Background())
		began := time.Now()
		l.a.Detach()
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		l.a.cut()
		l.b.resume()
		l.a.again()
		for range 500 {
			if _, err := l.b.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_ = l.a.Close()
		<-done
	})
}

// The end of its context ends a Write that waits, whatever it waits for. A message of
// which nothing has left is taken back; the stream goes on.
func TestContextEndsWrite(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		reason := errors.New("reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := l.blocked(ctx)
		began := time.Now()
		second := make(chan error, 1)
		go func() { second <- l.a.Write(ctx, []byte("waits for its turn")) }()
		synctest.Wait()
		cancel(reason)
		for _, c := range []<-chan error{done, second} {
			if err := <-c; !errors.Is(err, reason) {
				t.Errorf("Write: %v", err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		l.b.resume()
		wrote := make(chan error, 1)
		go func() { wrote <- l.a.Write(t.Context(), []byte("marker")) }()
		for {
			msg, err := l.b.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if string(msg) == "marker" {
				break
			}
			if len(msg) != 50_000 {
				t.Fatalf("message of %d bytes: %.30q", len(msg), msg)
			}
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}

// A message of which a part has left is sent to its end although its context has ended,
// and the one after it waits for that.
func TestContextEndsWriteOfALongMessage(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		l.b.stall()
		long := bytes.Repeat([]byte("long"), 10<<20)
		ctx, cancel := context.WithCancel(t.Context())
		wrote := make(chan error, 1)
		go func() { wrote <- l.a.Write(ctx, long) }()
		time.Sleep(time.Second)
		cancel()
		if err := <-wrote; err != nil {
			t.Errorf("Write of a message that will arrive: %v", err)
		}
		want := bytes.Clone(long)
		clear(long) // is the caller's again
		go func() { wrote <- l.a.Write(t.Context(), []byte("next")) }()
		synctest.Wait()
		l.b.resume()
		if msg, err := l.b.Read(t.Context()); err != nil || !bytes.Equal(msg, want) {
			t.Fatalf("%d bytes, %v", len(msg), err)
		}
		if msg, err := l.b.Read(t.Context()); err != nil || string(msg) != "next" {
			t.Errorf("%q, %v", msg, err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}

// What no stream carries is refused and changes nothing.
func TestImpossibleMessages(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		for _, n := range []int{0, arq.MaxMessage + 1} {
			if err := l.a.Write(t.Context(), make([]byte, n)); !errors.Is(err, arq.ErrSize) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		go func() { _ = l.a.Write(context.Background(), []byte("fine")) }()
		if msg, err := l.b.Read(t.Context()); err != nil || string(msg) != "fine" {
			t.Errorf("%q, %v", msg, err)
		}
	})
}
