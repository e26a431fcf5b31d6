package harness

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// Profiles are asked for where the registry announces them, or when forced.
func TestProfile(t *testing.T) {
	for _, tt := range []struct {
		name      string
		announced []frame.Profile
		forced    frame.Profile
		want      frame.Profile
	}{
		{"not announced", nil, "", frame.Codex},
		{"codex announced", []frame.Profile{frame.Codex}, "", frame.Codex},
		{"announced", []frame.Profile{frame.Codex, "reliable-9", frame.Reliable}, "", frame.Reliable},
		{"codex forced", []frame.Profile{frame.Reliable}, frame.Codex, frame.Codex},
		{"reliable forced", nil, frame.Reliable, frame.Reliable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tt.announced...)
				c := w.open(w.harness(Config{Profile: tt.forced}))
				exchange(t, c, "hello")
				if got := c.Info().Profile; got != tt.want {
					t.Errorf("profile %s", got)
				}
				if w.auths[0] != "authorization-i" {
					t.Errorf("authorization %q", w.auths[0])
				}
			})
		})
	}
}

// What the executor, or somebody in between, may answer instead of what it should.
func TestHandshakeFails(t *testing.T) {
	// answers sends what is made of a good responder.
	answers := func(make func(w *world, id string, r *seal.Responder) []*relayv1.RelayMessageFrame) func(*world) func(int, *simnet.Carrier) bool {
		return func(w *world) func(int, *simnet.Carrier) bool {
			return func(_ int, end *simnet.Carrier) bool {
				f := w.hello(end)
				r, err := w.responder(f)
				if err != nil {
					w.t.Error(err)
					return true
				}
				for _, f := range make(w, f.GetStreamId(), r) {
					w.send(end, f)
				}
				w.next(end) // nothing more comes, but the end
				return true
			}
		}
	}
	good := func(w *world, r *seal.Responder) []byte {
		message, _, err := r.WriteMessage2()
		if err != nil {
			w.t.Error(err)
		}
		return message
	}
	for _, tt := range []struct {
		name      string
		script    func(*world) func(int, *simnet.Carrier) bool
		want      func(error) bool
		permanent bool
		after     time.Duration
	}{
		{"refused", answers(func(w *world, id string, r *seal.Responder) []*relayv1.RelayMessageFrame {
			message, err := r.WriteRefusal()
			if err != nil {
				w.t.Error(err)
			}
			return []*relayv1.RelayMessageFrame{handshakeFrame(id, frame.Reliable, message)}
		}), func(err error) bool {
			return errors.Is(err, ErrRejected) && strings.Contains(err.Error(), "executor credentials rejected")
		}, true, 0},
		{"not granted", answers(func(w *world, id string, r *seal.Responder) []*relayv1.RelayMessageFrame {
			return []*relayv1.RelayMessageFrame{handshakeFrame(id, frame.Codex, good(w, r))}
		}), func(err error) bool {
			e, ok := errors.AsType[*ProfileError](err)
			return ok && *e == ProfileError{frame.Reliable, frame.Codex}
		}, true, 0},
		{"altered", answers(func(w *world, id string, r *seal.Responder) []*relayv1.RelayMessageFrame {
			message := good(w, r)
			message[len(message)/2] ^= 1
			return []*relayv1.RelayMessageFrame{handshakeFrame(id, frame.Reliable, message)}
		}), func(err error) bool { return errors.Is(err, seal.ErrAuthentication) }, false, 0},
		{"reset", answers(func(_ *world, id string, _ *seal.Responder) []*relayv1.RelayMessageFrame {
			return []*relayv1.RelayMessageFrame{resetFrame(id, strings.Repeat("x", 100_000))}
		}), func(err error) bool {
			e, ok := errors.AsType[*ResetError](err)
			return ok && len(e.Reason) < 200
		}, false, 0},
		{"data too early", answers(func(_ *world, id string, _ *seal.Responder) []*relayv1.RelayMessageFrame {
			return []*relayv1.RelayMessageFrame{{Version: 1, StreamId: id, Body: &relayv1.RelayMessageFrame_Data{
				Data: &relayv1.RelayData{SegmentCount: 1, Payload: []byte("x")},
			}}}
		}), func(err error) bool { return strings.Contains(err.Error(), "before the handshake") }, false, 0},
		{"invalid", func(w *world) func(int, *simnet.Carrier) bool {
			return func(_ int, end *simnet.Carrier) bool {
				w.hello(end)
				_ = end.Write(w.life, []byte("nonsense"))
				w.next(end)
				return true
			}
		}, func(err error) bool { return errors.Is(err, frame.ErrInvalid) }, false, 0},
		{"silence", func(w *world) func(int, *simnet.Carrier) bool {
			return func(_ int, end *simnet.Carrier) bool { w.hello(end); w.next(end); return true }
		}, func(err error) bool { return strings.Contains(err.Error(), "did not answer within 10s") }, false, HandshakeTimeout},
		{"socket lost", func(w *world) func(int, *simnet.Carrier) bool {
			return func(_ int, end *simnet.Carrier) bool { w.hello(end); end.Cut(); return true }
		}, func(err error) bool { return err != nil }, false, 0},
		{"socket that takes nothing", func(*world) func(int, *simnet.Carrier) bool {
			return func(_ int, end *simnet.Carrier) bool { end.Cut(); return true }
		}, func(err error) bool { return err != nil }, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, frame.Reliable)
				w.script = tt.script(w)
				began := time.Now()
				_, err := w.harness(Config{}).Connect(t.Context())
				if !tt.want(err) || Permanent(err) != tt.permanent {
					t.Errorf("got %v, permanent %v", err, Permanent(err))
				}
				if step, ok := errors.AsType[*StepError](err); !ok || step.Step != StepHandshake {
					t.Errorf("%v does not say which step", err)
				}
				if took := time.Since(began); took < tt.after || took > tt.after+time.Second {
					t.Errorf("took %v", took)
				}
				if connects, dials := w.counts(); connects != 1 || dials != 1 {
					t.Errorf("%d connects, %d dials: it was tried again", connects, dials)
				}
				synctest.Wait() // the socket was closed, so that the script has ended
			})
		})
	}
}

// Frames of other streams, and frames that say nothing yet, are passed over.
func TestHandshakeIgnores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		w.script = func(_ int, end *simnet.Carrier) bool {
			f := w.hello(end)
			id := f.GetStreamId()
			w.send(end, resetFrame("another", "x"))
			w.send(end, handshakeFrame("another", frame.Codex, []byte("x")))
			_ = end.Write(w.life, []byte{0x08, 9, 0x12, 1, 'a'}) // version 9, of stream a
			w.send(end, &relayv1.RelayMessageFrame{Version: 1, StreamId: id, Body: &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}}})
			w.send(end, &relayv1.RelayMessageFrame{Version: 1, StreamId: id, Body: &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}}})
			w.send(end, &relayv1.RelayMessageFrame{Version: 1, StreamId: id, Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}}})
			w.accept(end, f, nil)
			w.serve(end)
			return true
		}
		exchange(t, w.open(w.harness(Config{})), "hello")
	})
}

// Whoever takes the wish for the reliable profile out of the frames breaks the
// handshake: there is no quiet downgrade.
func TestStrippedProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		strip := func(message []byte) []simnet.Delivery {
			f, err := frame.Decode(message)
			if err != nil {
				w.t.Error(err)
			}
			f.Profile = ""
			message, err = frame.Append(nil, f)
			if err != nil {
				w.t.Error(err)
			}
			return simnet.Pass(message)
		}
		w.filters = func(int) (simnet.Filter, simnet.Filter) { return strip, strip }
		_, err := w.harness(Config{}).Connect(t.Context())
		if _, ok := errors.AsType[*ResetError](err); !ok {
			t.Errorf("got %v", err)
		}
	})
}

// The trace has every frame of a handshake, and nothing of what is in it.
func TestHandshakeTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		var mu sync.Mutex
		var got []string
		h := w.harness(Config{Trace: func(e relay.TraceEvent) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, string(e.Direction)+" "+e.Kind)
		}})
		w.open(h)
		mu.Lock()
		defer mu.Unlock()
		if len(got) < 3 || strings.Join(got[:3], ", ") != "out resume, out handshake, in handshake" {
			t.Errorf("trace %v", got)
		}
	})
}
