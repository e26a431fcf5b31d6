package relaytest

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	relayv1 "github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/simnet"
)

var bothProfiles = []frame.Profile{frame.Codex, frame.Reliable}

// encode writes f, valid or not.
func encode(f *relayv1.RelayMessageFrame) []byte {
	msg, err := proto.Marshal(f)
	if err != nil {
		panic(err)
	}
	return msg
}

// decode reads a frame that honest ends sent; nil for what is none.
func decode(msg []byte) *relayv1.RelayMessageFrame {
	f := new(relayv1.RelayMessageFrame)
	if proto.Unmarshal(msg, f) != nil {
		return nil
	}
	return f
}

// edit is a Filter that changes frames; edit returns false for those that it leaves alone.
func edit(note string, change func(f *relayv1.RelayMessageFrame) bool) simnet.Filter {
	return func(msg []byte) []simnet.Delivery {
		f := decode(msg)
		if f == nil || !change(f) {
			return simnet.Pass(msg)
		}
		return []simnet.Delivery{{Frame: encode(f), Note: " " + note}}
	}
}

// besides is a Filter that lets every frame pass and sends forged ones before it.
func besides(note string, forge func(f *relayv1.RelayMessageFrame) [][]byte) simnet.Filter {
	return func(msg []byte) []simnet.Delivery {
		var all []simnet.Delivery
		if f := decode(msg); f != nil {
			for _, forged := range forge(f) {
				all = append(all, simnet.Delivery{Frame: forged, Note: " " + note})
			}
		}
		return append(all, simnet.Delivery{Frame: msg})
	}
}

// every calls a filter for one data frame in n, and lets the others pass.
func every(n int, filter simnet.Filter) simnet.Filter {
	count := 0
	return func(msg []byte) []simnet.Delivery {
		if f := decode(msg); f == nil || f.GetData() == nil {
			return simnet.Pass(msg)
		}
		if count++; count%n != 0 {
			return simnet.Pass(msg)
		}
		return filter(msg)
	}
}

// onlyData calls a filter for data frames.
func onlyData(filter simnet.Filter) simnet.Filter { return every(1, filter) }

// flip changes a bit of the payload before the true frame comes.
func flip(r *rand.Rand) simnet.Filter {
	return besides("payload altered", func(f *relayv1.RelayMessageFrame) [][]byte {
		p := bytes.Clone(f.GetData().GetPayload())
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		f.GetData().Payload = p
		return [][]byte{encode(f)}
	})
}

// truncate sends the frame with a shorter payload before the true one.
func truncate(lengths ...int) simnet.Filter {
	return besides("payload truncated", func(f *relayv1.RelayMessageFrame) (forged [][]byte) {
		p := f.GetData().GetPayload()
		for _, n := range lengths {
			f.GetData().Payload = p[:min(n, len(p))]
			forged = append(forged, encode(f))
		}
		return forged
	})
}

// counting counts the frames that a filter does not simply let pass.
func counting(n *atomic.Int64, filter simnet.Filter) simnet.Filter {
	return func(msg []byte) []simnet.Delivery {
		all := filter(msg)
		if len(all) != 1 || !bytes.Equal(all[0].Frame, msg) || all[0].After > 0 {
			n.Add(1)
		}
		return all
	}
}

// An attack is what the relay does to the frames of one stream. What the victim's
// messages must not become is anything else than they were; whether its stream goes
// on, is said for the reliable profile. In the codex profile, in which nothing is sent
// twice, an attack may end it.
type attack struct {
	name     string
	filter   func(r *rand.Rand) simnet.Filter
	survives bool
}

var attacks = []attack{
	{"Drop", func(r *rand.Rand) simnet.Filter {
		return simnet.Chain(onlyData(simnet.Faults{Drop: 0.1}.Filter(r.Uint64())))
	}, true},
	{"Replay", func(*rand.Rand) simnet.Filter {
		return onlyData(func(msg []byte) []simnet.Delivery {
			return []simnet.Delivery{{Frame: msg}, {Frame: msg, Note: " again"}, {Frame: msg, Note: " again", After: 2 * time.Second}}
		})
	}, true},
	{"Reorder", func(r *rand.Rand) simnet.Filter { return onlyData(simnet.Faults{Late: 0.3}.Filter(r.Uint64())) }, true},
	{"AlterPayload", func(r *rand.Rand) simnet.Filter { return every(3, flip(r)) }, true},
	{"TruncatePayload", func(*rand.Rand) simnet.Filter { return every(4, truncate(1, 15, 16, 17)) }, true},
	{"AlterPlace", func(r *rand.Rand) simnet.Filter {
		return every(5, besides("place altered", func(f *relayv1.RelayMessageFrame) [][]byte {
			f.GetData().SegmentCount += uint32(1 + r.IntN(3))
			return [][]byte{encode(f)}
		}))
	}, true},
	{"AlterNumber", func(*rand.Rand) simnet.Filter {
		return every(5, besides("number altered", func(f *relayv1.RelayMessageFrame) [][]byte {
			f.GetData().Seq++
			return [][]byte{encode(f)}
		}))
	}, true},
	{"AckTooMuch", func(*rand.Rand) simnet.Filter {
		return every(3, besides("forged ack", func(f *relayv1.RelayMessageFrame) [][]byte {
			beyond := uint32(math.MaxUint32 - 1)
			return [][]byte{encode(&relayv1.RelayMessageFrame{
				Version: frame.Version, StreamId: f.GetStreamId(), Epoch: f.GetEpoch(), Ack: &beyond, AckBits: math.MaxUint32,
				Body: &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}},
			})}
		}))
	}, true},
	{"AckBack", func(*rand.Rand) simnet.Filter {
		return every(3, besides("forged ack", func(f *relayv1.RelayMessageFrame) [][]byte {
			none := uint32(0)
			return [][]byte{encode(&relayv1.RelayMessageFrame{
				Version: frame.Version, StreamId: f.GetStreamId(), Epoch: f.GetEpoch(), Ack: &none, Window: &none,
				Body: &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}},
			})}
		}))
	}, true},
	{"WideWindow", func(*rand.Rand) simnet.Filter {
		return edit("forged window", func(f *relayv1.RelayMessageFrame) bool {
			if f.Window == nil {
				return false
			}
			wide := uint32(math.MaxUint32)
			f.Window = &wide
			return f.GetData() == nil // those on data frames stay, so that there is credit
		})
	}, true},
	{"OtherStream", func(*rand.Rand) simnet.Filter {
		return every(2, besides("other stream", func(f *relayv1.RelayMessageFrame) [][]byte {
			f.StreamId += "-not"
			return [][]byte{encode(f)}
		}))
	}, true},
	{"Junk", func(r *rand.Rand) simnet.Filter {
		return every(2, besides("junk", func(f *relayv1.RelayMessageFrame) [][]byte {
			p := make([]byte, 1+r.IntN(200))
			for i := range p {
				p[i] = byte(r.Uint32())
			}
			return [][]byte{p, {}, encode(&relayv1.RelayMessageFrame{Version: 2, StreamId: f.GetStreamId()})}
		}))
	}, true},
	{"AnyBit", func(r *rand.Rand) simnet.Filter { return simnet.Faults{Corrupt: 0.02}.Filter(r.Uint64()) }, false},
	{"AnyCut", func(r *rand.Rand) simnet.Filter { return simnet.Faults{Truncate: 0.02}.Filter(r.Uint64()) }, false},
	{"Epoch", func(*rand.Rand) simnet.Filter {
		return every(9, edit("forged epoch", func(f *relayv1.RelayMessageFrame) bool { f.Epoch = 1000; return true }))
	}, false},
	{"Reset", func(*rand.Rand) simnet.Filter {
		return every(9, besides("forged reset", func(f *relayv1.RelayMessageFrame) [][]byte {
			return [][]byte{encode(&relayv1.RelayMessageFrame{
				Version: frame.Version, StreamId: f.GetStreamId(), Epoch: f.GetEpoch(),
				Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: "forged"}},
			})}
		}))
	}, false},
	{"HandshakeAgain", func(*rand.Rand) simnet.Filter {
		var first []byte
		return func(msg []byte) []simnet.Delivery {
			f := decode(msg)
			if f.GetHandshake() != nil {
				first = msg
			}
			if f.GetData() != nil && f.GetData().GetSeq() == 3 && first != nil {
				return []simnet.Delivery{{Frame: first, Note: " again"}, {Frame: msg}}
			}
			return simnet.Pass(msg)
		}
	}, false},
}

// Whatever a relay does to the frames of one stream, in either direction: no message
// arrives altered, twice or out of order, its own stream goes on or ends, and the
// stream beside it is not disturbed.
func TestAttacks(t *testing.T) {
	for _, profile := range bothProfiles {
		for _, a := range attacks {
			for _, direction := range []string{"Forth", "Back"} {
				t.Run(string(profile)+"/"+a.name+"/"+direction, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testAttack(t, profile, a, direction == "Forth") })
				})
			}
		}
	}
}

func testAttack(t *testing.T, profile frame.Profile, a attack, isForth bool) {
	m := newMiddle(t, 11)
	r := rand.New(rand.NewPCG(5, 5))
	var attacked atomic.Int64
	filter := counting(&attacked, a.filter(r))
	forth, back := filter, simnet.Filter(nil)
	if !isForth {
		forth, back = back, filter
	}
	stop := m.runExecutor()
	defer stop()
	witness := m.connect(m.harness("witness", profile, nil, nil))
	witness.most = 20_000
	defer witness.conn.Close()
	// An attack may keep the victim from connecting. That is an end, too.
	victim, err := m.harness("victim", profile, forth, back).Connect(t.Context())
	if err != nil {
		if a.survives {
			t.Fatalf("connect: %v", err)
		}
		return
	}
	defer victim.Close()
	var both sync.WaitGroup
	both.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := &conversation{conn: victim, rand: rand.New(rand.NewPCG(1, 2)), most: 80_000}
		err := c.exchange(ctx, 40)
		if err != nil && a.survives && profile == frame.Reliable {
			t.Errorf("victim: %v", err)
		}
		if isAltered(err) {
			t.Errorf("victim: %v", err)
		}
		t.Logf("%d frames attacked; victim: %v", attacked.Load(), err)
		if attacked.Load() == 0 && !(profile == frame.Codex && a.name == "WideWindow") { // which has no windows
			t.Error("the attack touched nothing")
		}
	})
	both.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // far less than any timer of the victim's
		defer cancel()
		if err := witness.exchange(ctx, 40); err != nil {
			t.Errorf("witness: %v", err)
		}
	})
	both.Wait()
}

// The payloads of two streams of one harness, exchanged, open nowhere.
func TestSwappedStreams(t *testing.T) {
	for _, profile := range bothProfiles {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMiddle(t, 12)
				// Each frame of one stream is sent with the other's id before it comes.
				var mu sync.Mutex
				latest := map[string][]byte{}
				swap := func(own, other string) simnet.Filter {
					return onlyData(besides("swapped", func(f *relayv1.RelayMessageFrame) [][]byte {
						mu.Lock()
						defer mu.Unlock()
						latest[own] = f.GetData().GetPayload()
						if latest[other] == nil {
							return nil
						}
						forged := proto.Clone(f).(*relayv1.RelayMessageFrame)
						forged.GetData().Payload = latest[other]
						return [][]byte{encode(forged)}
					}))
				}
				stop := m.runExecutor()
				defer stop()
				one := m.connect(m.harness("one", profile, swap("one", "two"), nil))
				defer one.conn.Close()
				two := m.connect(m.harness("two", profile, swap("two", "one"), nil))
				defer two.conn.Close()
				witness := m.connect(m.harness("witness", profile, nil, nil))
				defer witness.conn.Close()
				var all sync.WaitGroup
				for name, c := range map[string]*conversation{"one": one, "two": two, "witness": witness} {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						defer cancel()
						err := c.exchange(ctx, 30)
						if isAltered(err) || err != nil && (profile == frame.Reliable || name == "witness") {
							t.Errorf("%s: %v", name, err)
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// Nobody in between can bring the two ends to another profile than the harness asked
// for: there is no stream then, rather than one that is worse.
func TestDowngrade(t *testing.T) {
	profileTo := func(profile string) simnet.Filter {
		return edit("profile changed", func(f *relayv1.RelayMessageFrame) bool { f.Profile = profile; return true })
	}
	tests := []struct {
		name        string
		profile     frame.Profile
		forth, back simnet.Filter
	}{
		{"StripFromTheHarness", frame.Reliable, profileTo(""), nil},
		{"StripFromTheExecutor", frame.Reliable, nil, profileTo("")},
		{"StripFromBoth", frame.Reliable, profileTo(""), profileTo(string(frame.Reliable))},
		{"AddToTheHarness", frame.Codex, profileTo(string(frame.Reliable)), nil},
		{"AddToTheHarnessAndHide", frame.Codex, profileTo(string(frame.Reliable)), profileTo("")},
		{"AnotherOne", frame.Reliable, profileTo("reliable-0"), nil},
		{"AnotherOneAndHide", frame.Reliable, profileTo("reliable-0"), profileTo(string(frame.Reliable))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMiddle(t, 13)
				stop := m.runExecutor()
				defer stop()
				witness := m.connect(m.harness("witness", frame.Reliable, nil, nil))
				defer witness.conn.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn, err := m.harness("victim", tt.profile, tt.forth, tt.back).Connect(ctx)
				if err == nil {
					conn.Close()
					t.Error("there is a stream")
				}
				t.Log(err)
				if err := witness.exchange(t.Context(), 5); err != nil {
					t.Errorf("witness: %v", err)
				}
			})
		})
	}
}

// A registry that keeps quiet about the reliable profile cannot bring a harness to
// codex that insists on it.
func TestRegistryHidesTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMiddle(t, 13)
		m.registry.lie = func(r *registry.ConnectResponse) { r.RelayProfiles = nil }
		stop := m.runExecutor()
		defer stop()
		asked := ""
		look := func(msg []byte) []simnet.Delivery {
			if f := decode(msg); f.GetHandshake() != nil {
				asked = f.GetProfile()
			}
			return simnet.Pass(msg)
		}
		c := m.connect(m.harness("victim", frame.Reliable, look, nil))
		defer c.conn.Close()
		if err := c.exchange(t.Context(), 5); err != nil {
			t.Error(err)
		}
		if asked != string(frame.Reliable) {
			t.Errorf("asked for %q", asked)
		}
	})
}

// An ack of what the relay threw away does not stay unnoticed: the stream fails, in
// bounded time.
func TestForgedAckEndsLoudly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMiddle(t, 14)
		var mu sync.Mutex
		dropped := map[uint32]bool{}
		drop := onlyData(func(msg []byte) []simnet.Delivery {
			f := decode(msg)
			mu.Lock()
			defer mu.Unlock()
			if f.GetData().GetSeq() == 20 {
				dropped[20] = true
				return []simnet.Delivery{{Note: " dropped"}}
			}
			return simnet.Pass(msg)
		})
		// Whatever the executor says it has is made more.
		claim := edit("forged ack", func(f *relayv1.RelayMessageFrame) bool {
			mu.Lock()
			defer mu.Unlock()
			if !dropped[20] || f.Ack == nil || f.GetAck() < 19 {
				return false
			}
			all := uint32(20)
			f.Ack, f.AckBits = &all, 0
			return true
		})
		stop := m.runExecutor()
		defer stop()
		c := m.connect(m.harness("victim", frame.Reliable, drop, claim))
		defer c.conn.Close()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c.most = 1000
		err := c.exchange(ctx, 60)
		if err == nil || ctx.Err() != nil {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		t.Logf("after %v: %v", time.Since(began), err)
	})
}

// Authorizations that were issued to somebody else, were used, or are too old.
func TestBadAuthorizations(t *testing.T) {
	tests := []struct {
		name string
		lie  func(m *middle) func(r *registry.ConnectResponse)
	}{
		{"Stolen", func(m *middle) func(r *registry.ConnectResponse) {
			// Issued to another harness, which has not used it.
			stolen := m.registry.connect("lab", newIdentity(m.t).Public()).HarnessKeyAuthorization
			return func(r *registry.ConnectResponse) { r.HarnessKeyAuthorization = stolen }
		}},
		{"Reused", func(m *middle) func(r *registry.ConnectResponse) {
			return func(r *registry.ConnectResponse) { r.HarnessKeyAuthorization = m.registry.issued[0] }
		}},
		{"Expired", func(m *middle) func(r *registry.ConnectResponse) {
			m.registry.life = time.Nanosecond
			return nil
		}},
		{"Invented", func(*middle) func(r *registry.ConnectResponse) {
			return func(r *registry.ConnectResponse) { r.HarnessKeyAuthorization = "let me in" }
		}},
		{"OtherRegistration", func(*middle) func(r *registry.ConnectResponse) {
			return func(r *registry.ConnectResponse) { r.ExecutorRegistrationID = "registration-0" }
		}},
		{"WrongExecutorKey", func(m *middle) func(r *registry.ConnectResponse) {
			other := newIdentity(m.t).Public()
			return func(r *registry.ConnectResponse) { r.ExecutorPublicKey = other }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMiddle(t, 15)
				stop := m.runExecutor()
				defer stop()
				witness := m.connect(m.harness("witness", frame.Reliable, nil, nil))
				defer witness.conn.Close()
				served := m.served.Load()
				m.registry.mu.Lock()
				lie := tt.lie(m)
				m.registry.lie = lie
				m.registry.mu.Unlock()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				conn, err := m.harness("mallory", "", nil, nil).Connect(ctx)
				if err == nil {
					conn.Close()
					t.Error("came in")
				}
				t.Log(err)
				if n := m.served.Load() - served; n != 0 {
					t.Errorf("%d streams were served", n)
				}
				if err := witness.exchange(t.Context(), 5); err != nil {
					t.Errorf("witness: %v", err)
				}
			})
		})
	}
}

// Frames that are recorded and sent again when their stream is over start nothing.
func TestReplayedSession(t *testing.T) {
	for _, profile := range bothProfiles {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMiddle(t, 16)
				var mu sync.Mutex
				var recorded [][]byte
				record := func(msg []byte) []simnet.Delivery {
					mu.Lock()
					defer mu.Unlock()
					recorded = append(recorded, msg)
					return simnet.Pass(msg)
				}
				stop := m.runExecutor()
				defer stop()
				c := m.connect(m.harness("victim", profile, record, nil))
				if err := c.exchange(t.Context(), 5); err != nil {
					t.Fatal(err)
				}
				c.conn.Close()
				time.Sleep(time.Minute)
				witness := m.connect(m.harness("witness", profile, nil, nil))
				defer witness.conn.Close()
				served, messages := m.served.Load(), m.messages.Load()
				mu.Lock()
				for _, msg := range recorded {
					m.toExecutor(msg)
				}
				mu.Unlock()
				time.Sleep(time.Minute)
				if n := m.served.Load() - served; n != 0 {
					t.Errorf("%d streams were served", n)
				}
				if n := m.messages.Load() - messages; n != 0 {
					t.Errorf("%d messages were taken", n)
				}
				if err := witness.exchange(t.Context(), 5); err != nil {
					t.Errorf("witness: %v", err)
				}
			})
		})
	}
}
