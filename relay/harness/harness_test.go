package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// refuses answers connects with status and code, up to the last one; 0 means for ever.
func refuses(status int, code string, last int) func(int) (int, string) {
	return func(n int) (int, string) {
		if last > 0 && n > last {
			return 0, ""
		}
		return status, code
	}
}

// registry.md, section 3, first connection.
func TestFirstConnect(t *testing.T) {
	for _, tt := range []struct {
		name      string
		answer    func(int) (int, string)
		connects  int
		ok        bool
		permanent bool
	}{
		{"well", nil, 1, true, false},
		{"503 for ever", refuses(503, "", 0), 5, false, false},
		{"503 four times", refuses(503, "", 4), 5, true, false},
		{"408", refuses(408, "", 1), 2, true, false},
		{"429", refuses(429, "", 1), 2, true, false},
		{"500", refuses(500, "", 2), 3, true, false},
		{"no answer", refuses(-1, "", 3), 4, true, false},
		{"no answer for ever", refuses(-1, "", 0), 5, false, false},
		{"offline", refuses(409, registry.CodeOffline, 4), 5, true, false},
		{"offline for ever", refuses(409, registry.CodeOffline, 0), 5, false, false},
		{"409", refuses(409, "other", 0), 1, false, true},
		{"401", refuses(401, "", 0), 1, false, true},
		{"403", refuses(403, "", 0), 1, false, true},
		{"404", refuses(404, "", 0), 1, false, true},
		{"302", refuses(302, "", 0), 1, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.answer = tt.answer
				began := time.Now()
				c, err := w.harness(Config{}).Connect(t.Context())
				if (err == nil) != tt.ok || Permanent(err) != tt.permanent {
					t.Errorf("got %v, permanent %v", err, Permanent(err))
				}
				connects, _ := w.counts()
				if connects != tt.connects {
					t.Errorf("%d connects, want %d", connects, tt.connects)
				}
				var least time.Duration
				for i := range connects - 1 {
					least += registry.Delay(i, nil)
				}
				if took := time.Since(began); took < least || took > least*3/2+time.Second {
					t.Errorf("took %v, want %v and up to half more", took, least)
				}
				if err == nil {
					exchange(t, c, "hello")
					_ = c.Close()
				} else if step, ok := errors.AsType[*StepError](err); !ok || step.Step != StepRegistry {
					t.Errorf("%v does not say which step", err)
				}
			})
		})
	}
}

// Once there was a stream, everything that may pass is tried again for 45 s.
func TestRecovery(t *testing.T) {
	down := errors.New("no route")
	for _, tt := range []struct {
		name  string
		spoil func(w *world)
		least int // attempts
		fault error
	}{
		{"registry", func(w *world) { w.answer = refuses(503, "", 0) }, 9, nil},
		{"socket", func(w *world) { w.dialled = func(int) error { return down } }, 9, down},
		{"upgrade", func(w *world) { w.dialled = func(int) error { return &relay.RefusedError{Status: 403} } }, 9, nil},
		{"handshake", func(w *world) {
			w.script = func(_ int, end *simnet.Carrier) bool {
				f := w.hello(end)
				w.send(end, resetFrame(f.GetStreamId(), frame.ReasonProtocolError))
				return true
			}
		}, 9, nil},
		{"silent executor", func(w *world) {
			w.script = func(_ int, end *simnet.Carrier) bool { w.hello(end); w.next(end); return true }
		}, 3, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.harness(Config{})
				c := w.open(h)
				w.cut()
				if _, err := c.Read(t.Context()); err == nil {
					t.Fatal("read from a lost socket")
				}
				before, _ := w.counts()
				tt.spoil(w)
				began := time.Now()
				_, err := h.Connect(t.Context())
				if err == nil || Permanent(err) || tt.fault != nil && !errors.Is(err, tt.fault) {
					t.Errorf("got %v", err)
				}
				after, _ := w.counts()
				if n := after - before; n < tt.least || n > 13 {
					t.Errorf("%d attempts", n)
				}
				if took := time.Since(began); took < RecoveryTime-8*time.Second || took > RecoveryTime+HandshakeTimeout {
					t.Errorf("took %v", took)
				}

				// And then it is well again.
				w.answer, w.dialled, w.script = nil, nil, nil
				exchange(t, w.open(h), "again")
			})
		})
	}
}

// Whether it waits or asks when the context ends, the error says what was wrong before.
func TestContextEndsConnect(t *testing.T) {
	for name, asks := range map[string]bool{"Waiting": false, "Asking": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				w.answer = func(n int) (int, string) {
					if asks && n == 2 {
						<-ctx.Done()
						return -1, ""
					}
					return 503, ""
				}
				began := time.Now()
				_, err := w.harness(Config{}).Connect(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
					t.Errorf("got %v after %v", err, time.Since(began))
				}
				if refused, ok := errors.AsType[*registry.StatusError](err); !ok || refused.Status != 503 {
					t.Errorf("%v does not say what was wrong", err)
				}
			})
		})
	}
}

// The key is looked at before anything is sent to whoever has it.
func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stranger := errors.New("a stranger")
		var asked []*seal.PublicKey
		verdict := stranger
		h := w.harness(Config{Verify: func(key *seal.PublicKey) error {
			asked = append(asked, key)
			return verdict
		}})
		_, err := h.Connect(t.Context())
		if _, ok := errors.AsType[*UntrustedError](err); !ok || !errors.Is(err, stranger) || !Permanent(err) {
			t.Errorf("got %v", err)
		}
		if connects, dials := w.counts(); connects != 1 || dials != 0 {
			t.Errorf("%d connects, %d dials", connects, dials)
		}
		verdict = nil
		c := w.open(h)
		exchange(t, c, "hello")
		_ = c.Close()
		exchange(t, w.open(h), "hello")
		if len(asked) != 2 || !asked[1].Equal(w.executor.Public()) {
			t.Errorf("asked %d times", len(asked))
		}
	})
}

func TestKeyChangedInRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.harness(Config{})
		_ = w.open(h).Close()
		other, err := seal.NewIdentity()
		if err != nil {
			t.Fatal(err)
		}
		before := w.executor.Public()
		w.mu.Lock()
		w.executor = other
		w.mu.Unlock()
		_, dials := w.counts()
		_, err = h.Connect(t.Context())
		changed, ok := errors.AsType[*KeyChangedError](err)
		if !ok || changed.Before != before.Fingerprint() || changed.Now != other.Public().Fingerprint() || !Permanent(err) {
			t.Errorf("got %v", err)
		}
		if _, now := w.counts(); now != dials {
			t.Error("a socket was made for it")
		}
	})
}

// A key that nobody has proved to have is not remembered.
func TestKeyIsLearntFromTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other, err := seal.NewIdentity()
		if err != nil {
			t.Fatal(err)
		}
		w.spoil = func(n int, r *registry.ConnectResponse) {
			if n == 1 {
				r.ExecutorPublicKey = other.Public()
			}
		}
		h := w.harness(Config{})
		if _, err := h.Connect(t.Context()); err == nil {
			t.Fatal("a handshake with another key")
		}
		exchange(t, w.open(h), "hello")
	})
}

// registry.md, section 3, rendezvous upgrade.
func TestUpgradeRefused(t *testing.T) {
	for _, tt := range []struct {
		statuses []int
		connects int
		ok       bool
	}{
		{[]int{401}, 2, true},
		{[]int{401, 401}, 2, false},
		{[]int{401, 500}, 2, false},
		{[]int{403}, 1, false},
		{[]int{404}, 1, false},
		{[]int{500}, 1, false},
		{[]int{503}, 1, false},
	} {
		t.Run(fmt.Sprint(tt.statuses), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.dialled = func(n int) error {
					if n > len(tt.statuses) {
						return nil
					}
					return &relay.RefusedError{Status: tt.statuses[n-1], Reason: "expired"}
				}
				c, err := w.harness(Config{}).Connect(t.Context())
				connects, dials := w.counts()
				if (err == nil) != tt.ok || connects != tt.connects || dials != tt.connects {
					t.Errorf("%d connects, %d dials, %v", connects, dials, err)
				}
				if err == nil {
					exchange(t, c, "hello")
					_ = c.Close()
					return
				}
				refused, ok := errors.AsType[*relay.RefusedError](err)
				if !ok || refused.Status != tt.statuses[len(tt.statuses)-1] || Permanent(err) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// A socket that breaks before the relay has answered, as one may that is flooded, is made
// again, with what the registry says then. A relay that is not there is not waited for.
func TestUpgradeBroken(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		times    int
		connects int
	}{
		{"cut", io.ErrUnexpectedEOF, 1, 2},
		{"closed", io.EOF, FirstRetries, FirstRetries + 1},
		{"reset", os.NewSyscallError("read", syscall.ECONNRESET), FirstRetries + 1, FirstRetries + 1},
		{"broken pipe", os.NewSyscallError("write", syscall.EPIPE), 2, 3},
		{"not there", os.NewSyscallError("connect", syscall.ECONNREFUSED), 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.dialled = func(n int) error {
					if n > tt.times {
						return nil
					}
					return fmt.Errorf("dial the relay: %w", tt.err)
				}
				c, err := w.harness(Config{}).Connect(t.Context())
				if connects, dials := w.counts(); (err == nil) != (tt.connects > tt.times) || connects != tt.connects || dials != tt.connects {
					t.Errorf("%d connects, %d dials, %v", connects, dials, err)
				}
				if err == nil {
					exchange(t, c, "hello")
					_ = c.Close()
				}
			})
		})
	}
}

func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dialled = func(n int) error {
			if n == 1 {
				return &relay.RefusedError{Status: http.StatusUnauthorized}
			}
			return nil
		}
		var got []string
		h := w.harness(Config{OnStep: func(r StepReport) {
			got = append(got, fmt.Sprint(r.Step, " ", r.Err == nil))
		}})
		w.open(h)
		want := "[registry true key true upgrade false registry true key true upgrade true handshake true]"
		if fmt.Sprint(got) != want {
			t.Errorf("steps %v, want %s", got, want)
		}
	})
}

func TestConfig(t *testing.T) {
	reg, err := registry.New(registry.Config{BaseURLs: []string{"https://r.test"}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{
		"nothing":     {},
		"no registry": {EnvironmentID: "lab", Identity: id},
		"no identity": {EnvironmentID: "lab", Registry: reg},
		"bad id":      {EnvironmentID: "../lab", Registry: reg, Identity: id},
		"bad profile": {EnvironmentID: "lab", Registry: reg, Identity: id, Profile: "reliable-2"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Config{EnvironmentID: "lab", Registry: reg, Identity: id}); err != nil {
		t.Error(err)
	}
}
