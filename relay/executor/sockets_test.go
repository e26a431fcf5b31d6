package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
)

// move takes a harness's stream over to the executor's next connection, as if the
// harness had replaced its socket too.
func (p *peer) move(id string, s *relay.Stream, next *peer) {
	p.mu.Lock()
	delete(p.streams, id)
	p.mu.Unlock()
	s.Detach()
	next.adopt(id, s)
	s.Attach(next.carrier)
}

// When the executor's socket is lost, codex streams end with it, reliable ones go on
// over the next, in whatever state they were.
func TestSocketLoss(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		codex, reliable := p.open("codex", frame.Codex), p.open("reliable", frame.Reliable)
		p.roundTrip(codex, "hello")
		p.roundTrip(reliable, "hello")
		for i := range 3 {
			p.carrier.Cut()
			next := w.peer()
			p.move("reliable", reliable, next)
			next.roundTrip(reliable, fmt.Sprint("again ", i))
			p = next
		}
		// Only the id is known that has a stream.
		p.send(dataFrame("codex", 5, []byte("x")))
		p.wantReset("codex", frame.ReasonProtocolError)
		// The registration is the same, and so are the keys.
		if n := len(w.registered()); n != 1 {
			t.Errorf("registered %d times", n)
		}
		// Connections to the registry that were kept are not trusted any more.
		w.mu.Lock()
		dropped := w.dropped
		w.mu.Unlock()
		if dropped != 3 {
			t.Errorf("gave up kept connections %d times", dropped)
		}
		p.roundTrip(p.open("new", frame.Codex), "hello")
	})
}

// The executor's own socket alone is lost: it says resume for each of its streams.
func TestExecutorResumes(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		p.open("a", frame.Reliable)
		p.open("b", frame.Reliable)
		p.open("c", frame.Codex)
		p.carrier.Cut()
		next := w.peer()
		for _, id := range []string{"a", "b"} {
			f := next.frame(id)
			if frame.Kind(f) != "resume" || f.GetEpoch() != 1 || f.Window == nil {
				t.Errorf("stream %s: got %s, epoch %d", id, frame.Kind(f), f.GetEpoch())
			}
		}
		next.wantQuiet("c")
	})
}

// A long message in either direction survives cuts in its middle.
func TestCutsWithinMessages(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		s := p.open("s", frame.Reliable)
		text := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB, 35 segments
		done := make(chan error, 1)
		go func() { done <- roundTrip(s, text) }()
		for i := range 5 {
			pass(time.Duration(i+1) * 700 * time.Microsecond)
			p.carrier.Cut()
			next := w.peer()
			p.move("s", s, next)
			p = next
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// A harness that replaces its own socket says resume over the executor's old one.
func TestHarnessReplacesItsSocket(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		s := p.open("s", frame.Reliable)
		p.roundTrip(s, "one")
		s.Detach()
		pass(time.Minute)
		s.Attach(p.carrier)
		p.roundTrip(s, "two")
	})
}

// A reliable stream whose harness does not come back ends when its life is over.
func TestStreamLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := w.config()
		cfg.StreamLife = 3 * time.Minute
		ended := make(chan time.Time, 1)
		cfg.Serve = func(ctx context.Context, conn rpc.Connection, info StreamInfo) {
			echo(ctx, conn, info)
			ended <- time.Now()
		}
		w.run(cfg)
		p := w.peer()
		p.roundTrip(p.open("s", frame.Reliable), "hello")
		cut := time.Now()
		p.carrier.Cut()
		if life := (<-ended).Sub(cut); life < 170*time.Second || life > 200*time.Second {
			t.Errorf("ended after %v", life)
		}
		next := w.peer()
		pass(time.Minute)
		next.send(resumeFrame("s", frame.Reliable, 1))
		for {
			f := next.frame("s")
			if frame.Kind(f) == "resume" {
				continue // of the time when it still lived
			}
			if f.GetReset_().GetReason() == "" {
				t.Errorf("got %s", frame.Kind(f))
			}
			break
		}
	})
}

// A handshake under way when the socket is lost is over; its late answer counts for
// nothing on the next one.
func TestPendingEndsWithSocket(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		_, answer := pending(w, p, "s")
		p.carrier.Cut()
		pass(time.Millisecond)
		answer()
		next := w.peer()
		next.wantQuiet("s")
		w.set(func() { w.validate = answering(200, `{"valid":true}`) })
		next.roundTrip(next.open("s", frame.Codex), "hello")
	})
}

// A connection whose writing fails is replaced, though reading it goes on.
func TestWriteFailureReplacesSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := errors.New("broken pipe")
		w.wrap = func(c relay.Carrier) relay.Carrier { return unwritable{c, broken} }
		w.run(w.config())
		p := w.peer()
		p.send(dataFrame("x", 0, []byte("x"))) // makes it say something
		p.ended()
		w.set(func() { w.wrap = newWorld(t).wrap })
		next := w.peer()
		next.roundTrip(next.open("s", frame.Codex), "hello")
	})
}

type unwritable struct {
	relay.Carrier
	err error
}

func (u unwritable) Write(context.Context, []byte) error { return u.err }

// When Run ends, what serves a stream is told, and its harness is too, by a reset; Run
// waits for all of them.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := w.config()
		var mu sync.Mutex
		serving := 0
		cfg.Serve = func(ctx context.Context, conn rpc.Connection, _ StreamInfo) {
			mu.Lock()
			serving++
			mu.Unlock()
			<-ctx.Done()
			pass2(time.Second)
			if err := conn.Write(context.WithoutCancel(ctx), []byte("goodbye")); err != nil {
				t.Errorf("the last word: %v", err)
			}
			mu.Lock()
			serving--
			mu.Unlock()
		}
		stop := w.run(cfg)
		p := w.peer()
		codex, reliable := p.open("codex", frame.Codex), p.open("reliable", frame.Reliable)
		h, answer := pending(w, p, "pending")
		answer()
		_ = h.accepted()
		w.set(func() {
			w.validate = func(ctx context.Context, _ registry.ValidateRequest) (int, any) {
				<-ctx.Done()
				return 200, ""
			}
		})
		p.harness("never", frame.Codex, "a").ask()
		pass(time.Second)
		begun := time.Now()
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(begun); took > ShutdownTimeout+time.Second {
			t.Errorf("took %v", took)
		}
		mu.Lock()
		defer mu.Unlock()
		if serving != 0 {
			t.Errorf("%d are still being served", serving)
		}
		p.ended()
		for _, s := range []*relay.Stream{codex, reliable} {
			msg, err := s.Read(t.Context())
			if err != nil || string(msg) != "goodbye" {
				t.Errorf("got %q, %v", msg, err)
			}
			if _, err := s.Read(t.Context()); err == nil || errors.Is(err, context.Canceled) {
				t.Errorf("after the end: %v", err)
			}
		}
	})
}

// pass2 is pass for what is itself waited for.
func pass2(d time.Duration) { <-time.After(d) }

// Streams without a connection end with Run, too.
func TestShutdownWithoutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.run(w.config())
		p := w.peer()
		p.open("s", frame.Reliable)
		w.set(func() { w.refuse = func(int, string) error { return io.EOF } })
		p.carrier.Cut()
		pass(10 * time.Second)
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A lateContext calls meanwhile between the queueing of a frame and the wait for it.
type lateContext struct {
	context.Context
	meanwhile func()
	calls     int
}

func (c *lateContext) Done() <-chan struct{} {
	if c.calls++; c.calls == 2 {
		c.meanwhile()
	}
	return c.Context.Done()
}

// A frame counts as written although its context has ended meanwhile: a harness that has
// received the answer must find the stream.
func TestWrittenCountsMoreThanTheEnd(t *testing.T) {
	for range 100 {
		s := &socket{control: make(chan control, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		err := s.sendAndWait(&lateContext{Context: ctx, meanwhile: func() {
			close((<-s.control).written)
			cancel()
		}}, &relayv1.RelayMessageFrame{})
		cancel()
		if err != nil {
			t.Fatalf("a frame that was written: %v", err)
		}
	}
}
