package executor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// 128 streams; one more is reset and hurts nobody; when one has gone there is room.
func TestMaxStreams(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		var streams []*relay.Stream
		for i := range MaxStreams {
			profile := frame.Codex
			if i%2 == 1 {
				profile = frame.Reliable
			}
			streams = append(streams, p.open(fmt.Sprint(i), profile))
		}
		for range 3 {
			p.harness("more", frame.Codex, "a").ask()
			p.wantReset("more", frame.ReasonUnavailable)
		}
		for _, s := range streams {
			p.roundTrip(s, "hello")
		}
		_ = streams[5].Close()
		pass(time.Second)
		p.roundTrip(p.open("more", frame.Codex), "hello")
	})
}

// Where harnesses have died without a word, their streams make room, the one that was
// silent for longest first; those of living harnesses do not, whether they say anything
// or not.
func TestSilentStreamsMakeRoom(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		const dead = 3
		var streams []*relay.Stream
		for i := range MaxStreams {
			s := p.open(fmt.Sprint(i), frame.Reliable)
			streams = append(streams, s)
			if i < dead {
				s.Detach() // it is not told
				pass(time.Second)
			}
		}
		p.harness("early", frame.Codex, "a").ask()
		p.wantReset("early", frame.ReasonUnavailable)
		pass(time.Minute)
		for i := range dead {
			s := p.open(fmt.Sprint("new-", i), frame.Codex)
			p.roundTrip(s, "hello")
			streams = append(streams, s)
		}
		p.harness("late", frame.Codex, "a").ask()
		p.wantReset("late", frame.ReasonUnavailable)
		for _, s := range streams[dead:] {
			p.roundTrip(s, "hello")
		}
		// The dead one that comes back after all has to begin anew.
		p.mu.Lock()
		delete(p.streams, "0")
		p.inbox["0"] = nil
		p.mu.Unlock()
		p.send(resumeFrame("0", frame.Reliable, 1))
		p.wantReset("0", frame.ReasonUnknownStream)
	})
}

// 32 handshakes under way; one more is reset and hurts nobody, and that is no failure.
func TestMaxPending(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		waiting := make([]*harness, 0, MaxPending)
		answers := make([]func(), 0, MaxPending)
		for i := range MaxPending {
			h, answer := pending(w, p, fmt.Sprint(i))
			waiting, answers = append(waiting, h), append(answers, answer)
		}
		for i := range 2 * MaxFailures {
			id := fmt.Sprintf("more-%d", i)
			p.harness(id, frame.Codex, "a").ask()
			p.wantReset(id, frame.ReasonUnavailable)
		}
		for i, h := range waiting {
			answers[i]()
			p.roundTrip(h.accepted(), "hello")
		}
	})
}

// A handshake that was given up takes its place until nothing of it is under way.
func TestResetsDoNotMakeRoom(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		var answers []func()
		for i := range MaxPending {
			_, answer := pending(w, p, fmt.Sprint(i))
			answers = append(answers, answer)
			p.send(resetFrame(fmt.Sprint(i)))
		}
		p.harness("more", frame.Codex, "a").ask()
		p.wantReset("more", frame.ReasonUnavailable)
		if n := len(w.validated()); n != MaxPending {
			t.Errorf("the registry was asked %d times", n)
		}
		for _, answer := range answers {
			answer()
		}
		pass(time.Second)
		w.set(func() { w.validate = newWorld(t).validate })
		p.roundTrip(p.open("more", frame.Codex), "hello")
	})
}

// fail makes a handshake that fails.
func fail(p *peer, id string) {
	p.w.t.Helper()
	h := p.harness(id, frame.Codex, "a")
	h.message1[3000] ^= 1
	h.ask()
	p.wantReset(id, frame.ReasonProtocolError)
}

// manyFailures close the gate, though some are forgiven while they are made.
const manyFailures = MaxFailures + MaxFailures/4

// stranger makes a handshake with a key that the executor has not met.
func stranger(p *peer, id string) *harness {
	p.w.t.Helper()
	identity, err := seal.NewIdentity()
	if err != nil {
		p.w.t.Fatal(err)
	}
	before := p.w.harness
	p.w.harness = identity
	defer func() { p.w.harness = before }()
	return p.harness(id, frame.Codex, "a")
}

// Handshakes that fail now and then, as those of a harness that the relay never pauses,
// shut nobody out, however long they go on.
func TestSR2FailuresAreForgiven(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		for i := range 40 {
			fail(p, fmt.Sprint("bad-", i))
			p.roundTrip(stranger(p, fmt.Sprint("good-", i)).ask().accepted(), "hello")
			pass(3400 * time.Millisecond)
		}
	})
}

// While too many handshakes have failed, known keys come in, streams go on, and others are
// refused with a reason that the relay does not charge them for, until enough is forgiven.
func TestSR2GateKnowsKeys(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		s := p.open("s", frame.Codex)
		for i := range manyFailures {
			fail(p, fmt.Sprint("bad-", i))
		}
		asked := len(w.validated())
		stranger(p, "unknown").ask()
		p.wantReset("unknown", frame.ReasonUnavailable)
		if len(w.validated()) != asked {
			t.Error("the registry was asked")
		}
		p.roundTrip(p.open("known", frame.Codex), "hello")
		p.roundTrip(s, "hello")
		pass(time.Second)
		p.roundTrip(stranger(p, "after").ask().accepted(), "hello")
		if n := len(w.dialled()); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// Keys that are authorized by name need not have been there before.
func TestSR2GateKnowsAuthorizedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := w.config()
		cfg.Authorize = func(*seal.PublicKey) error { return nil }
		stop := w.run(cfg)
		p := w.peer()
		for i := range manyFailures {
			fail(p, fmt.Sprint("bad-", i))
		}
		p.roundTrip(p.open("s", frame.Codex), "hello")
		_ = stop()
	})
}

// A harness is not at fault when the registry does not answer.
func TestSR2RegistryAway(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		w.set(func() { w.validate = answering(503, ``) })
		p.harness("s", frame.Codex, "a").ask()
		p.wantReset("s", frame.ReasonUnavailable)
	})
}

// Which events are failures: as many as may be of each kind close the door.
func TestWhatIsCharged(t *testing.T) {
	for name, test := range map[string]struct {
		provoke func(w *world, p *peer, id string)
		charged bool
	}{
		"refused by the registry": {func(w *world, p *peer, id string) {
			w.set(func() { w.validate = answering(200, `{"valid":false}`) })
			p.harness(id, frame.Codex, "a").ask()
			p.wantReset(id, frame.ReasonProtocolError)
		}, true},
		"executor refused by the registry": {func(w *world, p *peer, id string) {
			w.set(func() { w.validate = answering(401, ``) })
			p.harness(id, frame.Codex, "a").ask()
			p.frame(id)
		}, true},
		"long authorization": {func(_ *world, p *peer, id string) {
			p.harness(id, frame.Codex, string(make([]byte, 5000))).ask()
			p.wantReset(id, frame.ReasonProtocolError)
		}, true},
		"data before its turn": {func(w *world, p *peer, id string) {
			w.set(func() {
				w.validate = func(ctx context.Context, _ registry.ValidateRequest) (int, any) { <-ctx.Done(); return 503, "" }
			})
			p.harness(id, frame.Codex, "a").ask()
			p.send(dataFrame(id, 0, []byte("x")))
			p.wantReset(id, frame.ReasonProtocolError)
		}, true},
		"reset before its turn": {func(w *world, p *peer, id string) {
			_, answer := pending(w, p, id)
			p.send(resetFrame(id))
			answer()
			pass(time.Second)
		}, false},
		"handshake in a stream": {func(w *world, p *peer, id string) {
			w.set(func() { w.validate = answering(200, `{"valid":true}`) })
			h := p.harness(id, frame.Codex, "a").ask()
			p.frame(id)
			h.ask()
			p.wantReset(id, frame.ReasonProtocolError)
		}, false},
		"data of no stream": {func(_ *world, p *peer, id string) {
			p.send(dataFrame(id, 0, []byte("x")))
			p.wantReset(id, frame.ReasonProtocolError)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world, p *peer) {
				n := manyFailures
				if test.charged {
					p.open("first", frame.Codex) // its key is known: the gate lets the last ones in
					n = 2 * MaxFailures
				}
				for i := range n {
					test.provoke(w, p, fmt.Sprint(i))
				}
				pass(ForgiveTime / 2)
				w.set(func() { w.validate = answering(200, `{"valid":true}`) })
				h := stranger(p, "good").ask()
				if test.charged {
					p.wantReset("good", frame.ReasonUnavailable)
				} else {
					p.roundTrip(h.accepted(), "hello")
				}
			})
		})
	}
}

// The count is that of one connection.
func TestNextConnectionCountsAnew(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		for i := range manyFailures {
			fail(p, fmt.Sprint(i))
		}
		p.carrier.Cut()
		next := w.peer()
		next.roundTrip(next.open("s", frame.Codex), "hello")
	})
}

// A relay that does not read cannot make the executor remember what it owes it.
func TestControlIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.wrap = func(c relay.Carrier) relay.Carrier { return stuck{c} }
		x, err := newExecutor(w.config())
		if err != nil {
			t.Fatal(err)
		}
		carrier, err := w.dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		p := <-w.peers
		s := x.newSocket(carrier, "reg-a")
		ended := make(chan error, 1)
		go func() { ended <- s.serve(t.Context()) }()
		for i := range 10 * MaxControl {
			p.send(dataFrame(fmt.Sprint(i), 0, []byte("x")))
		}
		pass(time.Second)
		// One is with the writer, the queue is full, and the rest was counted.
		if got, want := s.unsent.Load(), uint64(9*MaxControl-1); got != want || len(s.control) != MaxControl {
			t.Errorf("%d not sent, %d wait; want %d and %d", got, len(s.control), want, MaxControl)
		}
		p.carrier.Cut()
		<-ended
	})
}

func TestGate(t *testing.T) {
	now := time.Now()
	g := newGate()
	for i := range MaxFailures {
		if g.closed(now) {
			t.Fatalf("closed after %d", i)
		}
		g.charge(now)
	}
	for range 10 { // more do not keep it closed for longer
		g.charge(now)
	}
	if !g.closed(now) || !g.closed(now.Add(ForgiveTime-time.Millisecond)) || g.closed(now.Add(ForgiveTime)) {
		t.Error("wrong times")
	}
	for i := range MaxLooks + 1 {
		if g.look(now) != (i < MaxLooks) {
			t.Errorf("look %d", i+1)
		}
	}
}

func TestKnownKeysAreBounded(t *testing.T) {
	var x table
	key := func(i int) seal.Fingerprint { return seal.Fingerprint{byte(i), byte(i >> 8)} }
	for i := range MaxKnown + 10 {
		x.know(key(i))
		if !x.knows(key(i)) {
			t.Fatal("not known")
		}
	}
	if len(x.known) != MaxKnown {
		t.Errorf("%d are known", len(x.known))
	}
}
