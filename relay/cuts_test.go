package relay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// Sockets of either end, or of both, are cut and replaced at any time during a transfer
// in both directions: nothing is lost, nothing comes twice.
func TestCutsLoseNothing(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 36))
				path := simnet.CarrierConfig{Seed: seed, Latency: 5 * time.Millisecond, Jitter: 3 * time.Millisecond}
				l := newLine(t, frame.Reliable, path, path)
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
						}
						whose := [][]*party{{l.a}, {l.b}, {l.a, l.b}, {l.b, l.a}}[r.IntN(4)]
						for _, p := range whose {
							p.cut()
							time.Sleep(time.Duration(r.IntN(80)) * time.Millisecond)
						}
						for _, p := range whose {
							p.again()
							time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
						}
					}
				}()
				l.exchange(script{seed, 100, 120 << 10}, script{seed + 1, 400, 10 << 10})
				close(stop)
				<-stopped
				if l.a.Info().Epoch < 2 || l.b.Info().Epoch < 2 {
					t.Errorf("%d and %d sockets were replaced", l.a.Info().Epoch, l.b.Info().Epoch)
				}
			})
		})
	}
}

// A stream without a socket takes what fits in its queue and then waits; what waited
// goes on over the next socket.
func TestWriterWaitsWithoutSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Reliable, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		l.a.cut()
		synctest.Wait()
		if l.a.Info().Attached {
			t.Fatal("the stream still has a socket")
		}
		s := script{1, 400, 60_000}
		wrote := make(chan error, 1)
		go func() { wrote <- s.write(t.Context(), l.a.Stream) }()
		time.Sleep(5 * time.Minute)
		select {
		case err := <-wrote:
			t.Fatalf("400 messages fit in the queue: %v", err)
		default:
		}
		if c := l.a.Info().Cursors; c.Sent-c.Acked == 0 || c.Sent-c.Acked > arq.MaxSegments {
			t.Errorf("%d segments wait", c.Sent-c.Acked)
		}
		l.a.again()
		if err := s.read(t.Context(), l.b.Stream); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	})
}

// A socket that is lost in the middle of a frame's write: the writer hears nothing of
// it, and the frame goes again.
func TestFailedWriteIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Reliable, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		l.a.stall() // does not see the end of its socket
		l.a.own.Cut()
		if err := l.a.Write(t.Context(), []byte("hello")); err != nil {
			t.Fatalf("Write: %v", err)
		}
		l.a.resume()
		synctest.Wait()
		l.a.again()
		if msg, err := l.b.Read(t.Context()); err != nil || string(msg) != "hello" {
			t.Errorf("%q, %v", msg, err)
		}
	})
}

// What the peer sent before it went away is read, although writing fails already.
func TestLastWordsAfterAFailedWrite(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{Latency: time.Second})
		l.a.stall()
		for _, text := range []string{"first words", "last words"} { // of which the reader sees one
			if err := l.b.Write(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		_ = l.a.far.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = l.a.Write(ctx, []byte("nobody hears this")) // an error or not
		synctest.Wait()
		l.a.resume()
		for _, want := range []string{"first words", "last words"} {
			if msg, err := l.a.Read(t.Context()); err != nil || string(msg) != want {
				t.Errorf("%q, %v, want %q", msg, err, want)
			}
		}
	})
}

// A stream of the codex profile ends with its socket.
func TestCodexEndsWithItsSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Codex, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		if err := l.b.Write(t.Context(), []byte("before")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		l.a.cut()
		<-l.a.Done()
		if msg, err := l.a.Read(t.Context()); err != nil || string(msg) != "before" {
			t.Errorf("what came before: %q, %v", msg, err)
		}
		if _, err := l.a.Read(t.Context()); !isDetached(err) {
			t.Errorf("Read: %v", err)
		}
		if err := l.a.Write(t.Context(), []byte("x")); !isDetached(err) {
			t.Errorf("Write: %v", err)
		}
		synctest.Wait()
		if ends := l.a.ends(); len(ends) != 1 || !isDetached(ends[0]) {
			t.Errorf("OnEnd was told %v", ends)
		}
	})
}
