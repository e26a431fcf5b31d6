package relaytest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

func TestExchange(t *testing.T) {
	for _, profile := range bothProfiles {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.close()
				w.executor("executor", nil, w.echoes)
				settle()
				h := w.harness("harness", profile)
				for range 3 {
					if err := w.connect(h).exchange(t.Context(), 20); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// losses are ways to lose sockets. Each is called while messages flow.
var losses = map[string]func(w *world){
	"HarnessSocket":  func(w *world) { w.network.Host("harness").CutAll() },
	"ExecutorSocket": func(w *world) { w.network.Host("executor").CutAll() },
	"BothSockets":    func(w *world) { w.relayHost.CutAll() },
	"RelayRestart": func(w *world) {
		w.stopRelay()
		w.startRelay()
	},
	"RelayAwayForAMinute": func(w *world) {
		w.stopRelay()
		time.Sleep(time.Minute)
		w.startRelay()
	},
	"HarnessAwayForFiveMinutes": func(w *world) {
		h := w.network.Host("harness")
		h.Vanish(true)
		time.Sleep(5 * time.Minute)
		h.Vanish(false)
	},
	"ExecutorAwayForFiveMinutes": func(w *world) {
		h := w.network.Host("executor")
		h.Vanish(true)
		time.Sleep(5 * time.Minute)
		h.Vanish(false)
	},
	// A sleeping laptop: its address is gone when it comes back, and nobody told the
	// other end.
	"HarnessBackWithAnotherAddress":  func(w *world) { changeAddress(w.network.Host("harness")) },
	"ExecutorBackWithAnotherAddress": func(w *world) { changeAddress(w.network.Host("executor")) },
}

// changeAddress has what was connected stand still for ever.
func changeAddress(h *simnet.Host) {
	for _, l := range h.Links() {
		l.BlockThere(true)
		l.BlockBack(true)
	}
}

// Whatever socket is lost, and however: a reliable stream goes on with the same keys,
// over a new socket, without losing or repeating anything.
func TestReliableOutlivesSockets(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				defer w.close()
				for _, host := range []string{"executor", "harness"} {
					w.network.Host(host).SetPath(simnet.Path{Latency: 20 * time.Millisecond, Bandwidth: 4 << 20})
				}
				x := w.executor("executor", nil, w.echoes)
				settle()
				c := w.connect(w.harness("harness", frame.Reliable))
				if err := c.exchange(t.Context(), 3); err != nil {
					t.Fatal(err)
				}
				var exchanging sync.WaitGroup
				began := time.Now()
				exchanging.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
					defer cancel()
					if err := c.exchange(ctx, 100); err != nil {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				})
				time.Sleep(300 * time.Millisecond)
				lose(w)
				exchanging.Wait()
				t.Logf("%v in all", time.Since(began))
				if n := x.served.Load(); n != 1 {
					t.Errorf("%d streams, want the one", n)
				}
			})
		})
	}
}

// One direction of one socket is lost without a word, at any time between two pings.
// Pings or heartbeats notice it before anybody gives up, and the stream goes on over a
// new socket.
func TestHalfDeadSockets(t *testing.T) {
	for _, host := range []string{"executor", "harness"} {
		for _, direction := range []string{"there", "back"} {
			for phase := time.Duration(0); phase < 30*time.Second; phase += 5 * time.Second {
				t.Run(host+"/"+direction+"/"+phase.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testHalfDead(t, host, direction, phase) })
				})
			}
		}
	}
}

func testHalfDead(t *testing.T, host, direction string, phase time.Duration) {
	w := newWorld(t, 3)
	defer w.close()
	x := w.executor("executor", nil, w.echoes)
	settle()
	c := w.connect(w.harness("harness", frame.Reliable))
	witness := w.connect(w.harness("witness", frame.Reliable))
	if err := c.exchange(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute + phase) // connections to the registry are gone
	for _, l := range w.network.Host(host).Links() {
		if direction == "there" {
			l.BlockThere(true)
		} else {
			l.BlockBack(true)
		}
	}
	began := time.Now()
	c.most, witness.most = 1000, 1000 // no writer has to wait, which would show soon
	// 45 s of silence and 10 percent, or 30 s to a ping and 60 s for its pong; then a
	// new socket at once.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.exchange(ctx, 10); err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	t.Logf("went on after %v", time.Since(began))
	if err := witness.exchange(ctx, 10); err != nil {
		t.Errorf("witness: %v", err)
	}
	if n := x.served.Load(); n != 2 {
		t.Errorf("%d streams, want the two", n)
	}
}

// A stream that lost contact ends after its life, at both ends.
func TestLifeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		defer w.close()
		var served sync.WaitGroup
		served.Add(1)
		w.executor("executor", nil, func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
			defer served.Done()
			w.echoes(ctx, conn, info)
		})
		settle()
		c := w.connect(w.harness("harness", frame.Reliable))
		if err := c.exchange(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		w.network.Host("harness").Vanish(true)
		began := time.Now()
		if _, err := c.conn.Read(t.Context()); err == nil {
			t.Error("read something")
		} else {
			t.Logf("harness: after %v: %v", time.Since(began), err)
		}
		if took := time.Since(began); took < 10*time.Minute || took > 12*time.Minute {
			t.Errorf("the harness gave up after %v", took)
		}
		served.Wait()
		t.Logf("executor: after %v", time.Since(began))
		if took := time.Since(began); took > 13*time.Minute {
			t.Errorf("the executor gave up after %v", took)
		}
	})
}

// An idle stream sends a heartbeat each 15 s, in each direction, and nothing else; one
// of the codex profile sends nothing at all.
func TestQuietWhenIdle(t *testing.T) {
	// In an hour 240 each way, 10 percent more or fewer; each is counted where it is
	// written and where it is read.
	for profile, most := range map[frame.Profile]int64{frame.Codex: 0, frame.Reliable: 2 * 2 * 240 * 11 / 10} {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 5)
				defer w.close()
				w.executor("executor", nil, w.echoes)
				settle()
				c := w.connect(w.harness("harness", profile))
				if err := c.exchange(t.Context(), 3); err != nil {
					t.Fatal(err)
				}
				settle()
				before := w.frames.Load()
				time.Sleep(time.Hour)
				if n := w.frames.Load() - before; n > most || n < most*7/10 {
					t.Errorf("%d frames in an hour, want %d at most", n, most)
				}
				if err := c.exchange(t.Context(), 3); err != nil {
					t.Errorf("after the hour: %v", err)
				}
			})
		})
	}
}
