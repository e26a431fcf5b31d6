package relaytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	relayv1 "github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/seal"
)

// C-037: a second executor with the id of the first, which is attached, is told so and
// ends. The first one and its streams are not disturbed.
func TestC037TwoExecutors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 31)
		defer w.close()
		first := w.executor("first", nil, w.echoes)
		settle()
		c := w.connect(w.harness("harness", frame.Reliable))
		if err := c.exchange(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		second := w.executor("second", nil, w.echoes)
		select {
		case err := <-second.ended:
			t.Log(err)
			if err == nil || !strings.Contains(err.Error(), "409") {
				t.Errorf("the second ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the second was not told")
		}
		if err := c.exchange(t.Context(), 3); err != nil {
			t.Errorf("a stream of the first: %v", err)
		}
		if err := w.connect(w.harness("late", frame.Reliable)).exchange(t.Context(), 3); err != nil {
			t.Errorf("a harness that comes after it: %v", err)
		}
		if n := second.served.Load(); n != 0 {
			t.Errorf("the second served %d streams", n)
		}
		if n := w.connects("first"); n != 1 {
			t.Errorf("the first connected %d times", n)
		}
		// When the first is gone, there is room.
		first.cancel()
		settle()
		third := w.executor("third", nil, w.echoes)
		settle()
		if err := w.connect(w.harness("later", frame.Reliable)).exchange(t.Context(), 3); err != nil {
			t.Errorf("after the first is gone: %v", err)
		}
		if n := third.served.Load(); n != 1 {
			t.Errorf("the third served %d streams", n)
		}
	})
}

// C-037: of two executors with one id and one key, a copied identity file perhaps, the
// latest goes on. The one that was replaced ends and says why, also if it was cut off
// meanwhile. They do not throw each other out.
func TestC037OneIdentityTwice(t *testing.T) {
	for name, cut := range map[string]bool{"Connected": false, "CutOff": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 32)
				defer w.close()
				identity := newIdentity(t)
				first := w.executor("first", identity, w.echoes)
				settle()
				w.network.Host("first").Vanish(cut)
				second := w.executor("second", identity, w.echoes)
				settle()
				if cut {
					time.Sleep(10 * time.Minute)
					w.network.Host("first").Vanish(false)
				}
				select {
				case err := <-first.ended:
					if !errors.Is(err, executor.ErrReplaced) {
						t.Errorf("the first ended with %v", err)
					}
				case <-time.After(2 * time.Minute):
					t.Error("the first goes on")
				}
				if err := w.connect(w.harness("harness", frame.Reliable)).exchange(t.Context(), 3); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if n := w.connects("second"); n != 1 || second.served.Load() != 1 {
					t.Errorf("the second connected %d times and served %d streams", n, second.served.Load())
				}
			})
		})
	}
}

// An executor that vanished without a word is taken for gone in time, and a new one
// with another key finds room.
func TestVanishedExecutorMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 33)
		defer w.close()
		w.executor("first", nil, w.echoes)
		settle()
		w.network.Host("first").Vanish(true)
		time.Sleep(2 * time.Minute) // 30 s to the ping, 60 s for the pong
		w.executor("second", nil, w.echoes)
		settle()
		if err := w.connect(w.harness("harness", frame.Reliable)).exchange(t.Context(), 3); err != nil {
			t.Error(err)
		}
	})
}

// A harness that does not read loses its connection when its queue is full, and only
// it: the executor's socket stays, and the streams beside it are as fast as before.
func TestSlowHarness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 34)
		defer w.close()
		ended := make(chan int, 1)
		x := w.executor("executor", nil, func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
			if info.Profile == frame.Reliable {
				w.echoes(ctx, conn, info)
				return
			}
			n := 0
			for conn.Write(ctx, make([]byte, 16<<10)) == nil {
				n++
			}
			ended <- n * 16 >> 10
		})
		settle()
		witness := w.connect(w.harness("witness", frame.Reliable))
		slow, err := w.harness("slow", frame.Codex).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		written := -1
		for range 60 {
			began := time.Now()
			if err := witness.exchange(t.Context(), 3); err != nil {
				t.Fatalf("witness: %v", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the witness waited %v", took)
			}
			select {
			case written = <-ended:
			default:
				time.Sleep(time.Second)
				continue
			}
			break
		}
		t.Logf("%d MiB were written to the slow harness", written)
		// A hundred messages wait at the harness, 16 MiB at the relay, the rest in sockets.
		if written < 0 || written > 24 {
			t.Errorf("the slow stream took %d MiB", written)
		}
		if n := w.connects("executor"); n != 1 {
			t.Errorf("the executor connected %d times", n)
		}
		if n := x.served.Load(); n != 2 {
			t.Errorf("%d streams", n)
		}
	})
}

// raw opens a harness's socket without making a stream.
func (w *world) raw(name, token string) relay.Carrier {
	w.t.Helper()
	host := w.network.Host(name)
	way, err := w.registryClient(host, token).Connect(w.t.Context(), env, newIdentity(w.t).Public())
	if err != nil {
		w.t.Fatal(err)
	}
	carrier, err := relay.Dial(w.t.Context(), way.URL, relay.DialConfig{NetDial: host.Dial})
	if err != nil {
		w.t.Fatal(err)
	}
	w.closing = append(w.closing, func() { carrier.Close() })
	return carrier
}

// Another holder of a good token names somebody's stream in its frames: they do not
// reach it, and what comes from the stream does not reach him.
func TestOthersStreams(t *testing.T) {
	for _, profile := range bothProfiles {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 35)
				defer w.close()
				w.executor("executor", nil, w.echoes)
				settle()
				victim := w.connect(w.harness("victim", profile))
				if err := victim.exchange(t.Context(), 3); err != nil {
					t.Fatal(err)
				}
				id := streamID(t, victim)
				mallory := w.raw("mallory", w.issue(rendezvous.RoleHarness, env))
				window := uint32(1000)
				for _, f := range []*relayv1.RelayMessageFrame{
					{Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{NextSeq: 3}}, Epoch: 5, Window: &window, Profile: profile.Field()},
					{Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: 3, SegmentCount: 1, Payload: make([]byte, 100)}}},
					{Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: make([]byte, seal.Message1Overhead)}}},
					{Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: "mallory"}}},
				} {
					f.Version, f.StreamId = frame.Version, id
					if mallory.Write(t.Context(), encode(f)) != nil {
						break // thrown out, which is right, too
					}
				}
				heard := make(chan int, 1)
				go func() { // ends with mallory's socket, which is closed with the world
					n := 0
					for {
						msg, err := mallory.Read(context.Background())
						if err != nil {
							heard <- n
							return
						}
						if f := decode(msg); f.GetStreamId() == id && f.GetData() != nil {
							n++
						}
					}
				}()
				settle()
				if err := victim.exchange(t.Context(), 10); err != nil {
					t.Errorf("victim: %v", err)
				}
				mallory.Close()
				if n := <-heard; n != 0 {
					t.Errorf("mallory heard %d frames", n)
				}
			})
		})
	}
}

// streamID is the id of a conversation's stream.
func streamID(t *testing.T, c *conversation) string {
	t.Helper()
	s, ok := c.conn.(interface{ Info() relay.StreamInfo })
	if !ok {
		t.Fatalf("%T does not tell its stream", c.conn)
	}
	return s.Info().ID
}

// Ten thousand streams that come to nothing, from a harness with a good token: the
// relay and the executor keep nothing of them, others are not disturbed.
func TestFloodOverTheRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames, step := floodFrames(), 500
		w := newWorld(t, 36)
		defer w.close()
		w.executor("executor", nil, w.echoes)
		settle()
		witness := w.connect(w.harness("witness", frame.Reliable))
		mallory := w.raw("mallory", w.issue(rendezvous.RoleHarness, env))
		go func() { // ends with mallory's socket
			for {
				if _, err := mallory.Read(context.Background()); err != nil {
					return
				}
			}
		}()
		r := rand.New(rand.NewPCG(4, 4))
		var half int64
		goroutines := 0
		for i := range frames {
			id := fmt.Sprintf("flood-%d", i)
			if err := mallory.Write(t.Context(), floods[[]string{"Handshakes", "Data", "Resumes", "LongIDs"}[i%4]](id, i, r)); err != nil {
				t.Logf("thrown out after %d frames: %v", i, err)
				break
			}
			if (i+1)%step != 0 {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := witness.exchange(ctx, 3); err != nil {
				t.Fatalf("after frame %d the witness: %v", i, err)
			}
			cancel()
			synctest.Wait()
			if i+1 == frames/2 {
				half, goroutines = heap(), runtime.NumGoroutine()
			}
		}
		if half > 0 {
			grown := heap() - half
			t.Logf("memory grew by %d bytes in the second half", grown)
			if grown > 2<<20 {
				t.Error("memory is not flat")
			}
			if n := runtime.NumGoroutine() - goroutines; n > 4 {
				t.Errorf("%d goroutines more than at half time", n)
			}
		}
		time.Sleep(executor.MaxFailures * executor.ForgiveTime)
		if err := w.connect(w.harness("late", frame.Reliable)).exchange(t.Context(), 5); err != nil {
			t.Errorf("a harness that comes after it: %v", err)
		}
	})
}

// Tokens that are not good for it let nobody in.
func TestBadTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 37)
		defer w.close()
		w.executor("executor", nil, w.echoes)
		settle()
		witness := w.connect(w.harness("witness", frame.Reliable))
		for name, token := range map[string]string{
			"Unknown":          "wsd-000000000000-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
			"NotOne":           "secret",
			"AnExecutors":      w.executorToken,
			"OtherEnvironment": w.issue(rendezvous.RoleHarness, "other"),
		} {
			began := time.Now()
			conn, err := w.harnessAs("mallory", "", newIdentity(t), token).Connect(t.Context())
			if err == nil {
				conn.Close()
				t.Errorf("%s: came in", name)
			} else if !harness.Permanent(err) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: tried for %v", name, took)
			}
		}
		// A harness's URL is for one socket, a minute long.
		host := w.network.Host("mallory")
		c := w.registryClient(host, w.harnessToken)
		dial := func(url string) error {
			carrier, err := relay.Dial(t.Context(), url, relay.DialConfig{NetDial: host.Dial})
			if err == nil {
				carrier.Close()
			}
			return err
		}
		way, err := c.Connect(t.Context(), env, newIdentity(t).Public())
		if err != nil {
			t.Fatal(err)
		}
		if err := dial(way.URL); err != nil {
			t.Fatal(err)
		}
		var refused *relay.RefusedError
		if err := dial(way.URL); !errors.As(err, &refused) {
			t.Errorf("a URL that was used: %v", err)
		}
		if way, err = c.Connect(t.Context(), env, newIdentity(t).Public()); err != nil {
			t.Fatal(err)
		}
		good, err := url.Parse(way.URL)
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range good.Query() {
			altered, q := *good, good.Query()
			first := byte('1')
			if values[0][0] == first {
				first = '2'
			}
			q.Set(name, string(first)+values[0][1:])
			altered.RawQuery = q.Encode()
			if err := dial(altered.String()); !errors.As(err, &refused) {
				t.Errorf("a URL with another %s: %v", name, err)
			}
			q.Del(name)
			altered.RawQuery = q.Encode()
			if err := dial(altered.String()); !errors.As(err, &refused) {
				t.Errorf("a URL without %s: %v", name, err)
			}
		}
		time.Sleep(2 * time.Minute)
		if err := dial(way.URL); !errors.As(err, &refused) {
			t.Errorf("a URL that has expired: %v", err)
		}
		if err := witness.exchange(t.Context(), 3); err != nil {
			t.Errorf("witness: %v", err)
		}
	})
}
