package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// wantEnd waits until the connection has ended by itself, and returns why.
func wantEnd(t *testing.T, c *conn) error {
	t.Helper()
	<-c.done
	_, err := c.Read(t.Context())
	if err == nil {
		t.Fatal("read after the end")
	}
	if writeErr := c.Write(t.Context(), []byte("x")); !errors.Is(writeErr, rpc.ErrClosed) {
		t.Errorf("write after the end: %v", writeErr)
	}
	return err
}

// inject sends a frame to the harness from somebody in between.
func (w *world) inject(message []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sockets[len(w.sockets)-1].Inject(message)
}

// What ends a connection of the codex profile, and what does not.
func TestCodexConnection(t *testing.T) {
	own := func(f *relayv1.RelayMessageFrame) func(*testing.T, *world, *conn) {
		return func(t *testing.T, w *world, c *conn) {
			f.StreamId = c.id
			w.inject(encode(t, f))
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*testing.T, *world, *conn)
		ends bool
	}{
		{"socket lost", func(_ *testing.T, w *world, _ *conn) { w.cut() }, true},
		{"version", own(&relayv1.RelayMessageFrame{Version: 2, Body: &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}}}), true},
		{"no body", own(&relayv1.RelayMessageFrame{Version: 1}), true},
		{"segment 0 of 2", own(&relayv1.RelayMessageFrame{Version: 1, Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: 0, SegmentCount: 2, Payload: []byte("x")}}}), true},
		{"empty data", own(&relayv1.RelayMessageFrame{Version: 1, Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{SegmentCount: 1}}}), true},
		{"forged data", own(&relayv1.RelayMessageFrame{Version: 1, Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: 0, SegmentCount: 1, Payload: make([]byte, 40)}}}), true},
		{"second handshake", own(handshakeFrame("", frame.Codex, []byte("x"))), true},
		{"reset", own(resetFrame("", "x")), true},
		{"nonsense", func(_ *testing.T, w *world, _ *conn) { w.inject([]byte("nonsense")) }, true},
		{"ack", own(&relayv1.RelayMessageFrame{Version: 1, Body: &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}}}), false},
		{"heartbeat", own(&relayv1.RelayMessageFrame{Version: 1, Body: &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}}}), false},
		{"resume", own(&relayv1.RelayMessageFrame{Version: 1, Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}}}), false},
		{"another's reset", func(t *testing.T, w *world, _ *conn) { w.inject(encode(t, resetFrame("other", "x"))) }, false},
		{"another's nonsense", func(t *testing.T, w *world, _ *conn) {
			w.inject(encode(t, &relayv1.RelayMessageFrame{Version: 9, StreamId: "other"}))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.open(w.harness(Config{}))
				tt.do(t, w, c)
				if tt.ends {
					if err := wantEnd(t, c); Permanent(err) {
						t.Errorf("%v is permanent", err)
					}
					if connects, _ := w.counts(); connects != 1 {
						t.Errorf("%d connects: the connection went on by itself", connects)
					}
					return
				}
				exchange(t, c, "hello")
			})
		})
	}
}

// A harness that does not read its messages does not read its socket: a codex executor
// that sends faster has no other way to learn it.
func TestCodexBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		w := newWorld(t)
		c := w.open(w.harness(Config{}))
		w.mu.Lock()
		s := w.streams[c.id]
		w.mu.Unlock()
		w.wg.Go(func() {
			for i := range n {
				if err := s.Write(w.life, fmt.Append(nil, i)); err != nil {
					t.Errorf("write %d: %v", i, err)
					return
				}
			}
		})
		time.Sleep(time.Second)
		for i := range n {
			got, err := c.Read(t.Context())
			if err != nil || string(got) != fmt.Sprint(i) {
				t.Fatalf("message %d is %q, %v", i, got, err)
			}
		}
	})
}

// talk exchanges messages until stop, each once and in order, and returns how many.
func talk(t *testing.T, c rpc.Connection, stop <-chan struct{}) int {
	t.Helper()
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				written <- result{i, nil}
				return
			case <-time.After(40 * time.Millisecond):
			}
			if err := c.Write(t.Context(), fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i*4001%100_000))); err != nil {
				written <- result{i, err}
				return
			}
		}
	}()
	total := -1
	for i := 0; i != total; i++ {
		type read struct {
			msg []byte
			err error
		}
		next := make(chan read, 1)
		go func() {
			msg, err := c.Read(t.Context())
			next <- read{msg, err}
		}()
		var r read
		select {
		case r = <-next:
		case w := <-written:
			if w.err != nil {
				t.Errorf("write %d: %v", w.n, w.err)
				return i
			}
			if total = w.n; i == total {
				_ = c.Close()
				<-next
				return total
			}
			r = <-next
		}
		if r.err != nil {
			t.Errorf("read %d: %v", i, r.err)
			return i
		}
		if number, _, _ := strings.Cut(string(r.msg), " "); number != fmt.Sprint(i) || len(r.msg) != len(number)+1+i*4001%100_000 {
			t.Errorf("message %d is %q of %d bytes", i, number, len(r.msg))
			return i
		}
	}
	return total
}

// The reliable profile: sockets die all the time, and the conversation does not notice.
func TestReliableSurvivesCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		h := w.harness(Config{})
		c := w.open(h)
		stop := make(chan struct{})
		cuts := 0
		go func() {
			defer close(stop)
			r := rand.New(rand.NewPCG(1, 2))
			for cuts = range 12 {
				time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
				w.cut()
			}
			time.Sleep(time.Second)
		}()
		n := talk(t, c, stop)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.auths) != 1 {
			t.Errorf("%d handshakes", len(w.auths))
		}
		if len(w.dials) < cuts/2 || n < 500 {
			t.Errorf("%d sockets for %d cuts, %d messages", len(w.dials), cuts, n)
		}
	})
}

// A socket is replaced at once, then with growing pauses, for as long as the stream lives.
func TestReplacementBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		exchange(t, c, "hello")
		time.Sleep(settled)
		began := time.Now()
		w.answer = refuses(503, "", 0)
		w.cut()
		err := wantEnd(t, c)
		if took := time.Since(began); took < arq.DefaultLife || took > arq.DefaultLife+5*time.Second {
			t.Errorf("lived for %v", took)
		}
		if Permanent(err) {
			t.Errorf("%v is permanent", err)
		}
		tries := w.connects[1:]
		if len(tries) < 90 || len(tries) > 260 {
			t.Errorf("%d attempts", len(tries))
		}
		if first := tries[0].Sub(began); first > time.Second/100 {
			t.Errorf("first attempt after %v", first)
		}
		base := replaceMin
		for i := range len(tries) - 1 {
			if gap := tries[i+1].Sub(tries[i]); gap < base/2 || gap > base*3/2 {
				t.Errorf("attempt %d after %v, want about %v", i+2, gap, base)
			}
			base = min(2*base, replaceMax)
		}
	})
}

// Sockets that die as soon as they are there are not made in a loop; one that lasted is
// replaced at once.
func TestFlappingSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		w.script = func(n int, end *simnet.Carrier) bool {
			if n > 10 {
				return false
			}
			end.Cut()
			return true
		}
		began := time.Now()
		w.cut()
		exchange(t, c, "hello")
		if took := time.Since(began); took < 10*time.Second || took > time.Minute {
			t.Errorf("ten sockets took %v", took)
		}
		time.Sleep(settled)
		began = time.Now()
		w.cut()
		exchange(t, c, "hello")
		if took := time.Since(began); took > time.Second/2 {
			t.Errorf("the next took %v", took)
		}
	})
}

// What may pass is tried again; what is for good ends the stream at once, although it
// could live.
func TestReplacementFails(t *testing.T) {
	other, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		spoil func(w *world)
		ends  bool
	}{
		{"registry down", func(w *world) { w.answer = refuses(-1, "", 8) }, false},
		{"offline", func(w *world) { w.answer = refuses(409, registry.CodeOffline, 8) }, false},
		{"upgrade 401, twice", func(w *world) {
			w.dialled = func(n int) error {
				if n > 5 {
					return nil
				}
				return &relay.RefusedError{Status: 401}
			}
		}, false},
		{"upgrade 404", func(w *world) {
			w.dialled = func(n int) error {
				if n > 5 {
					return nil
				}
				return &relay.RefusedError{Status: 404}
			}
		}, false},
		{"401", func(w *world) { w.answer = refuses(401, "", 0) }, true},
		{"403", func(w *world) { w.answer = refuses(403, "", 0) }, true},
		{"404", func(w *world) { w.answer = refuses(404, "", 0) }, true},
		{"another key", func(w *world) {
			w.spoil = func(_ int, r *registry.ConnectResponse) { r.ExecutorPublicKey = other.Public() }
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, frame.Reliable)
				h := w.harness(Config{})
				c := w.open(h)
				tt.spoil(w)
				began := time.Now()
				w.cut()
				if !tt.ends {
					exchange(t, c, "hello")
					return
				}
				err := wantEnd(t, c)
				if !Permanent(err) || !errors.Is(err, rpc.ErrClosed) || c.Err() == nil {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("after %v", took)
				}
				if _, err := h.Connect(t.Context()); !Permanent(err) {
					t.Errorf("connect: %v", err)
				}
			})
		})
	}
}

// A socket that seems to work, and over which nothing comes, is replaced.
func TestSilentSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		dead := false
		w.filters = func(n int) (simnet.Filter, simnet.Filter) {
			if n > 1 {
				return nil, nil
			}
			drop := func(message []byte) []simnet.Delivery {
				if dead {
					return nil
				}
				return simnet.Pass(message)
			}
			return drop, drop
		}
		c := w.open(w.harness(Config{}))
		exchange(t, c, "hello")
		synctest.Wait()
		dead = true
		began := time.Now()
		exchange(t, c, "are you there?")
		if took := time.Since(began); took < arq.Silence*9/10 || took > arq.Silence*12/10 {
			t.Errorf("replaced after %v", took)
		}
		if len(w.auths) != 1 {
			t.Errorf("%d handshakes", len(w.auths))
		}
	})
}

// An executor that has forgotten the stream says so, and the stream ends at once: its
// owner opens another.
func TestForgottenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		h := w.harness(Config{})
		c := w.open(h)
		exchange(t, c, "hello")
		w.forget()
		w.cut()
		began := time.Now()
		err := wantEnd(t, c)
		reset, ok := errors.AsType[*arq.ResetError](err)
		if !ok || reset.Reason != frame.ReasonUnknownStream || Permanent(err) || time.Since(began) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		exchange(t, w.open(h), "hello again")
	})
}

// A stream that ended behind the executor's back is ended there too before there is
// another: it would keep its session.
func TestBuriedStream(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(w *world, c *conn)
	}{
		{"life over", func(w *world, c *conn) {
			w.answer = refuses(503, "", 0)
			w.cut()
			<-c.done
			w.answer = nil
		}},
		{"closed without a socket", func(w *world, c *conn) {
			w.answer = refuses(503, "", 0)
			w.cut()
			time.Sleep(time.Second)
			_ = c.Close()
			w.answer = nil
		}},
		{"reset by somebody in between", func(w *world, c *conn) {
			w.inject(encode(w.t, resetFrame(c.id, "forged")))
			<-c.done
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, frame.Reliable)
				h := w.harness(Config{StreamLife: 5 * time.Second})
				c := w.open(h)
				exchange(t, c, "hello")
				w.mu.Lock()
				s := w.streams[c.id]
				w.mu.Unlock()
				tt.end(w, c)
				if s.Err() != nil {
					t.Fatalf("the executor knows: %v", s.Err())
				}
				next := w.open(h)
				exchange(t, next, "hello")
				if reset, ok := errors.AsType[*arq.ResetError](s.Err()); !ok || reset.Reason != relay.ReasonClosed {
					t.Errorf("the executor's end: %v", s.Err())
				}
				if graves := h.buried(); len(graves) != 0 {
					t.Errorf("still buried: %v", graves)
				}
				_ = next.Close()
				if graves := h.buried(); len(graves) != 0 {
					t.Errorf("buried what was closed: %v", graves)
				}
			})
		})
	}
}

func TestGravesAreBounded(t *testing.T) {
	h := new(Harness)
	for i := range 2 * maxGraves {
		h.bury(grave{fmt.Sprint(i), 0})
	}
	if graves := h.buried(); len(graves) != maxGraves || graves[0].id != fmt.Sprint(maxGraves) {
		t.Errorf("%d graves, the first is %s", len(graves), graves[0].id)
	}
}

// Somebody in between sends what is not valid. In the reliable profile it is no more
// than noise.
func TestReliableDropsNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		w.inject([]byte("nonsense"))
		w.inject(encode(t, &relayv1.RelayMessageFrame{Version: 7, StreamId: c.id}))
		w.inject(encode(t, handshakeFrame(c.id, frame.Reliable, []byte("x"))))
		w.inject(encode(t, &relayv1.RelayMessageFrame{Version: 1, StreamId: c.id, Body: &relayv1.RelayMessageFrame_Data{
			Data: &relayv1.RelayData{Seq: 0, SegmentIndex: 3, SegmentCount: 2, Payload: []byte("x")},
		}}))
		exchange(t, c, "hello")
		if connects, _ := w.counts(); connects != 1 {
			t.Errorf("%d connects", connects)
		}
	})
}

func TestClose(t *testing.T) {
	for _, profile := range []frame.Profile{frame.Codex, frame.Reliable} {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, profile)
				c := w.open(w.harness(Config{}))
				w.mu.Lock()
				s := w.streams[c.id]
				w.mu.Unlock()
				read := make(chan error, 1)
				go func() {
					_, err := c.Read(t.Context())
					read <- err
				}()
				synctest.Wait()
				began := time.Now()
				for range 3 {
					go c.Close()
				}
				if err := c.Close(); err != nil || time.Since(began) != 0 {
					t.Errorf("close: %v after %v", err, time.Since(began))
				}
				if err := <-read; !errors.Is(err, rpc.ErrClosed) {
					t.Errorf("read: %v", err)
				}
				<-s.Done() // the executor has been told
				var reset *arq.ResetError
				if err := s.Err(); !errors.As(err, &reset) || reset.Reason != relay.ReasonClosed {
					t.Errorf("the executor's end: %v", err)
				}
				if err := c.Write(t.Context(), []byte("x")); !errors.Is(err, rpc.ErrClosed) {
					t.Errorf("write: %v", err)
				}
			})
		})
	}
}

func TestCloseFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		w.mu.Lock()
		s := w.streams[c.id]
		w.mu.Unlock()
		if err := c.CloseFault(rpc.ClosePolicyViolation, "nonsense"); err != nil {
			t.Error(err)
		}
		<-s.Done()
		if reset, ok := errors.AsType[*arq.ResetError](s.Err()); !ok || reset.Reason == "" || reset.Reason == relay.ReasonClosed {
			t.Errorf("the executor's end: %v", s.Err())
		}
	})
}

// Close ends a replacement that is under way.
func TestCloseWithoutSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		w.answer = refuses(503, "", 0)
		w.cut()
		time.Sleep(time.Minute)
		began := time.Now()
		if err := c.Close(); err != nil || time.Since(began) > relay.CloseTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The executor's end of a stream is an orderly one.
func TestExecutorCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		w.mu.Lock()
		s := w.streams[c.id]
		w.mu.Unlock()
		_ = s.Close()
		if _, err := c.Read(context.Background()); !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
		<-c.done
		if connects, _ := w.counts(); connects != 1 {
			t.Errorf("%d connects", connects)
		}
	})
}

func TestBackoff(t *testing.T) {
	b := backoff{rand: rand.New(rand.NewPCG(1, 2))}
	for range 2 {
		if d := b.next(); d != 0 {
			t.Errorf("first: %v", d)
		}
		for _, base := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			b.lost(settled-1, false)
			base *= time.Millisecond
			if d := b.next(); d < base/2 || d >= base*3/2 {
				t.Errorf("%v, want about %v", d, base)
			}
		}
		b.lost(settled-1, true)
		if d := b.next(); d < replaceMin/2 || d >= replaceMin*3/2 {
			t.Errorf("after progress: %v", d)
		}
		b.lost(settled, false)
	}
	b.lost(0, true)
	if d := b.next(); d != 0 {
		t.Errorf("the first, after progress: %v", d)
	}
}
