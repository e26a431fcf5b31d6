package executor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
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
			p.wantReset("more", frame.ReasonProtocolError)
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
		p.wantReset("early", frame.ReasonProtocolError)
		pass(time.Minute)
		for i := range dead {
			s := p.open(fmt.Sprint("new-", i), frame.Codex)
			p.roundTrip(s, "hello")
			streams = append(streams, s)
		}
		p.harness("late", frame.Codex, "a").ask()
		p.wantReset("late", frame.ReasonProtocolError)
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
			p.wantReset(id, frame.ReasonProtocolError)
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
		p.wantReset("more", frame.ReasonProtocolError)
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

// 8 failures close the door for 10 s. The connection stays, and its streams do. Then
// the count begins anew. What succeeds does not clear it.
func TestCooldown(t *testing.T) {
	bubble(t, func(w *world, p *peer) {
		s := p.open("s", frame.Codex)
		for round := range 2 {
			for i := range MaxFailures {
				if i == MaxFailures-1 {
					p.roundTrip(p.open(fmt.Sprintf("between-%d", round), frame.Codex), "hello")
				}
				fail(p, fmt.Sprintf("bad-%d-%d", round, i))
			}
			asked := len(w.validated())
			begun := time.Now()
			for time.Since(begun) < Cooldown-200*time.Millisecond {
				id := fmt.Sprintf("closed-%d-%d", round, time.Since(begun))
				p.harness(id, frame.Codex, "a").ask()
				p.wantReset(id, frame.ReasonProtocolError)
				pass(150 * time.Millisecond)
			}
			if len(w.validated()) != asked {
				t.Error("the registry was asked")
			}
			p.roundTrip(s, "hello")
			pass(300 * time.Millisecond)
		}
		p.roundTrip(p.open("after", frame.Codex), "hello")
		if n := len(w.dialled()); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// Which events are failures: seven of each kind and one bad handshake close the door.
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
			_, answer := pending(w, p, id)
			p.send(dataFrame(id, 0, []byte("x")))
			p.wantReset(id, frame.ReasonProtocolError)
			answer()
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
				for i := range MaxFailures {
					test.provoke(w, p, fmt.Sprint(i))
				}
				pass(time.Second)
				w.set(func() { w.validate = answering(200, `{"valid":true}`) })
				h := p.harness("good", frame.Codex, "a").ask()
				if test.charged {
					p.wantReset("good", frame.ReasonProtocolError)
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
		for i := range MaxFailures {
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
	var g gate
	for i := range 3 * MaxFailures {
		if g.closed(now) {
			t.Fatalf("closed after %d", i)
		}
		g.charge(now)
		if (i+1)%MaxFailures == 0 {
			if !g.closed(now) || !g.closed(now.Add(Cooldown-1)) || g.closed(now.Add(Cooldown)) {
				t.Fatalf("after %d: wrong times", i+1)
			}
			now = now.Add(Cooldown)
		}
	}
}
