package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// Both profiles, on one connection; the registry is asked what message 1 said.
func TestHandshake(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		for _, profile := range []frame.Profile{frame.Codex, frame.Reliable} {
			id := "stream-" + string(profile)
			p.send(resumeFrame(id, profile, 0)) // says nothing to an executor yet
			h := p.harness(id, profile, "token-"+id).ask()
			p.roundTrip(h.accepted(), "hello")
			p.roundTrip(p.open("again-"+id, profile), strings.Repeat("x", 300_000))
		}
		asked := w.validated()
		if len(asked) != 4 {
			t.Fatalf("asked %d times", len(asked))
		}
		if v := asked[0]; v.stream != "stream-codex" || v.req.HarnessKeyAuthorization != "token-stream-codex" ||
			v.req.ExecutorRegistrationID != "reg-a" || v.req.HarnessPublicKey == nil {
			t.Errorf("asked %v about %q", v.req, v.stream)
		}
	})
}

// The profile is bound into the handshake: a frame that lost or got the field on its
// way makes it fail.
func TestProfileIsBound(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		for i, test := range []struct{ made, said frame.Profile }{{frame.Codex, frame.Reliable}, {frame.Reliable, frame.Codex}} {
			id := fmt.Sprint(i)
			h := p.harness(id, test.made, "a")
			p.send(handshakeFrame(id, test.said, h.message1))
			p.wantReset(id, frame.ReasonProtocolError)
		}
		// A profile that nobody knows is answered with codex.
		h := p.harness("unknown", frame.Codex, "a")
		f := handshakeFrame("unknown", frame.Codex, h.message1)
		f.Profile = "reliable-9"
		p.send(f)
		p.roundTrip(h.accepted(), "hello")
	})
}

// Ids are text of any kind, and are used again.
func TestStreamIDs(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		for _, id := range []string{"x", "ü\n", " padded ", "x", strings.Repeat("i", frame.MaxStreamIDBytes)} {
			s := p.open(id, frame.Codex)
			p.roundTrip(s, "hello")
			_ = s.Close() // tells the executor
			pass(time.Second)
			p.mu.Lock()
			delete(p.streams, id)
			p.mu.Unlock()
		}
	})
}

// What the registry may answer, and what the harness is told of it.
func TestValidation(t *testing.T) {
	yes, no := registry.ValidateResponse{Valid: true}, registry.ValidateResponse{}
	for _, test := range []struct {
		name   string
		status int
		body   any
		want   string
	}{
		{"valid", 200, yes, "accepted"},
		{"valid, 201", 201, yes, "accepted"},
		{"not valid", 200, no, "reset"},
		{"no member", 200, "{}", "unanswered"},
		{"no JSON", 200, "<html>", "unanswered"},
		{"401", 401, "", "refused"},
		{"400", 400, "", "reset"},
		{"403", 403, "", "reset"},
		{"404", 404, "", "reset"},
		{"408", 408, "", "unanswered"},
		{"409", 409, "", "reset"},
		{"410", 410, "", "reset"},
		{"422", 422, "", "reset"},
		{"429", 429, "", "unanswered"},
		{"500", 500, "", "unanswered"},
		{"502", 502, "", "unanswered"},
		{"503", 503, "", "unanswered"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(w *world, p *peer) {
				w.set(func() {
					w.validate = func(context.Context, registry.ValidateRequest) (int, any) { return test.status, test.body }
				})
				h := p.harness("s", frame.Codex, "a").ask()
				switch test.want {
				case "accepted":
					p.roundTrip(h.accepted(), "hello")
				case "reset":
					p.wantReset("s", frame.ReasonProtocolError)
					p.send(dataFrame("s", 0, []byte("x")))
					p.wantReset("s", frame.ReasonProtocolError) // there is no such stream
				case "unanswered":
					p.wantReset("s", frame.ReasonUnavailable)
				case "refused":
					f := p.frame("s")
					if _, err := h.initiator.ReadMessage2(f.GetHandshake().GetPayload()); !errors.Is(err, seal.ErrRefused) {
						t.Errorf("message 2 says %v", err)
					}
					p.wantQuiet("s")
				}
				if n := len(w.validated()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

// A registry that does not answer has 10 s. Meanwhile nothing is said, and other
// frames flow.
func TestValidationTakesTooLong(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		s := p.open("first", frame.Codex)
		w.set(func() {
			w.validate = func(ctx context.Context, _ registry.ValidateRequest) (int, any) {
				<-ctx.Done()
				return 200, registry.ValidateResponse{Valid: true}
			}
		})
		p.harness("s", frame.Reliable, "a").ask()
		begun := time.Now()
		pass(9 * time.Second)
		p.wantQuiet("s")
		p.roundTrip(s, "hello")
		p.wantReset("s", frame.ReasonUnavailable)
		if took := time.Since(begun); took < 10*time.Second || took > 10*time.Second+50*time.Millisecond {
			t.Errorf("reset after %v", took)
		}
		if n := len(w.validated()); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestAuthorization(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		for i, test := range []struct {
			payload string
			ok      bool
		}{
			{"", true},
			{strings.Repeat("a", 4096), true},
			{strings.Repeat("a", 4097), false},
			{"\xff", false},
		} {
			id := fmt.Sprint(i)
			before := len(w.validated())
			h := p.harness(id, frame.Codex, test.payload).ask()
			if test.ok {
				p.roundTrip(h.accepted(), "hello")
			} else {
				p.wantReset(id, frame.ReasonProtocolError)
				if len(w.validated()) != before {
					t.Errorf("the registry was asked about %.10q", test.payload)
				}
			}
		}
	})
}

// Who is not on the executor's own list is reset, before the registry is asked.
func TestAuthorize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := w.config()
		var asked *seal.PublicKey
		cfg.Authorize = func(key *seal.PublicKey) error {
			asked = key
			return errors.New("not on the list")
		}
		w.run(cfg)
		p := w.peer()
		p.harness("s", frame.Reliable, "a").ask()
		p.wantReset("s", frame.ReasonProtocolError)
		if asked == nil || len(w.validated()) != 0 {
			t.Errorf("asked about %v, the registry %d times", asked, len(w.validated()))
		}
	})
}

// pending starts a handshake about which the registry says valid when told to.
func pending(w *world, p *peer, id string) (h *harness, answer func()) {
	done := make(chan struct{})
	w.set(func() {
		w.validate = func(context.Context, registry.ValidateRequest) (int, any) {
			<-done // without regard to the context: a late answer
			return 200, registry.ValidateResponse{Valid: true}
		}
	})
	h = p.harness(id, frame.Codex, "a").ask()
	pass(50 * time.Millisecond)
	return h, func() { close(done) }
}

// Frames out of turn end a pending handshake, and what the registry says later counts
// for nothing, even when the id is in use again.
func TestOutOfTurn(t *testing.T) {
	for name, test := range map[string]struct {
		send  func(*harness)
		reset bool
	}{
		"second handshake": {func(h *harness) { h.ask() }, true},
		"data":             {func(h *harness) { h.p.send(dataFrame(h.id, 0, []byte("x"))) }, true},
		"reset":            {func(h *harness) { h.p.send(resetFrame(h.id)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world, p *peer) {
				h, answer := pending(w, p, "s")
				test.send(h)
				if test.reset {
					p.wantReset("s", frame.ReasonProtocolError)
				}
				p.wantQuiet("s")
				second, answer2 := pending(w, p, "s")
				answer()
				p.wantQuiet("s")
				answer2()
				p.roundTrip(second.accepted(), "hello")
			})
		})
	}
}

// Frames that do not disturb a pending handshake.
func TestPendingIsLeftAlone(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		h, answer := pending(w, p, "s")
		p.send(resumeFrame("s", frame.Codex, 0))
		p.send(resumeFrame("s", frame.Reliable, 1))
		p.send(heartbeatFrame("s"))
		p.send(ackFrame("s"))
		bad := dataFrame("s", 0, []byte("x"))
		bad.GetData().SegmentCount = 2 // invalid, so it is not even there
		p.send(bad)
		p.wantQuiet("s")
		answer()
		p.roundTrip(h.accepted(), "hello")
	})
}

// The stream is there before message 2 is on its way: the harness's first record comes
// while message 2 is still being written.
func TestStreamIsThereBeforeMessage2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gate := &slowWriter{arrived: make(chan struct{}), proceed: make(chan struct{})}
		w.wrap = gate.wrap
		w.run(w.config())
		p := w.peer()
		h := p.harness("s", frame.Codex, "a").ask()
		<-gate.arrived
		// Message 2 has left, and its write has not returned.
		s := h.accepted()
		if err := s.Write(t.Context(), []byte("early")); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		close(gate.proceed)
		msg, err := s.Read(t.Context())
		if err != nil || string(msg) != "early" {
			t.Fatalf("got %q, %v", msg, err)
		}
	})
}

// A socket that is lost while the harness is told leaves no stream behind.
func TestMessage2IsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gate := &slowWriter{arrived: make(chan struct{}), proceed: make(chan struct{})}
		w.wrap = gate.wrap
		cfg := w.config()
		served := make(chan StreamInfo, 1)
		cfg.Serve = func(ctx context.Context, conn rpc.Connection, info StreamInfo) {
			_, _ = conn.Read(ctx)
			served <- info
		}
		w.run(cfg)
		p := w.peer()
		p.harness("s", frame.Reliable, "a").ask()
		<-gate.arrived
		p.carrier.Cut()
		synctest.Wait() // until it is noticed
		close(gate.proceed)
		w.set(func() { w.wrap = newWorld(t).wrap })
		next := w.peer()
		select {
		case <-served: // its stream ended at once
		case <-time.After(time.Minute):
			t.Fatal("the stream goes on")
		}
		next.send(resumeFrame("s", frame.Reliable, 1))
		next.wantReset("s", frame.ReasonUnknownStream)
	})
}
