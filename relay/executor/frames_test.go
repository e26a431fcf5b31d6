package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
)

// Frames for streams that are not there.
func TestUnknownStreams(t *testing.T) {
	data := dataFrame("s", 0, []byte("x"))
	data.GetData().SegmentIndex, data.GetData().SegmentCount, data.GetData().Seq = 1, 2, 5
	for name, test := range map[string]struct {
		frame *relayv1.RelayMessageFrame
		reset string
	}{
		"data":                       {dataFrame("s", 0, []byte("x")), frame.ReasonProtocolError},
		"data of the reliable kind":  {data, frame.ReasonProtocolError},
		"reset":                      {resetFrame("s"), ""},
		"heartbeat":                  {heartbeatFrame("s"), ""},
		"ack":                        {ackFrame("s"), ""},
		"first resume":               {resumeFrame("s", frame.Codex, 0), ""},
		"first resume, reliable":     {resumeFrame("s", frame.Reliable, 0), ""},
		"codex resume with an epoch": {resumeFrame("s", frame.Codex, 3), ""},
		"later resume, reliable":     {resumeFrame("s", frame.Reliable, 1), frame.ReasonUnknownStream},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(_ *world, p *peer) {
				p.send(test.frame)
				if test.reset != "" {
					p.wantReset("s", test.reset)
				}
				p.wantQuiet("s")
			})
		})
	}
}

// encode encodes a frame without checking it.
func encode(t *testing.T, f *relayv1.RelayMessageFrame) []byte {
	t.Helper()
	msg, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// Invalid frames are dropped: the stream goes on, and no number is used up.
func TestInvalidFrames(t *testing.T) {
	change := func(f func(*relayv1.RelayMessageFrame)) []byte {
		d := dataFrame("s", 0, []byte("some record of a length that is right"))
		f(d)
		return encode(t, d)
	}
	invalid := map[string][]byte{
		"version 0":          change(func(f *relayv1.RelayMessageFrame) { f.Version = 0 }),
		"version 2":          change(func(f *relayv1.RelayMessageFrame) { f.Version = 2 }),
		"no stream id":       change(func(f *relayv1.RelayMessageFrame) { f.StreamId = "" }),
		"blank stream id":    change(func(f *relayv1.RelayMessageFrame) { f.StreamId = " \t" }),
		"no body":            change(func(f *relayv1.RelayMessageFrame) { f.Body = nil }),
		"empty data":         change(func(f *relayv1.RelayMessageFrame) { f.GetData().Payload = nil }),
		"segment 1 of 1":     change(func(f *relayv1.RelayMessageFrame) { f.GetData().SegmentIndex = 1 }),
		"segment 0 of 0":     change(func(f *relayv1.RelayMessageFrame) { f.GetData().SegmentCount = 0 }),
		"segment 0 of 2":     change(func(f *relayv1.RelayMessageFrame) { f.GetData().SegmentCount = 2 }),
		"empty reset":        encode(t, &relayv1.RelayMessageFrame{Version: 1, StreamId: "s", Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{}}}),
		"empty handshake":    encode(t, handshakeFrame("s", frame.Codex, nil)),
		"not a message":      []byte("hello"),
		"cut":                encode(t, dataFrame("s", 0, []byte("x")))[:6],
		"nothing":            {},
		"unknown body only":  protowire.AppendBytes(protowire.AppendTag([]byte{8, 1, 18, 1, 's'}, 13, protowire.BytesType), []byte("x")),
		"stream id not UTF8": {8, 1, 18, 1, 0xff, 0x3a, 0},
	}
	for name, msg := range invalid {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(_ *world, p *peer) {
				s := p.open("s", frame.Codex)
				p.sendBytes(msg)
				p.sendBytes(msg)
				p.roundTrip(s, "hello")
				p.sendBytes(msg)
				p.roundTrip(s, "hello")
			})
		})
	}
}

// What a stream of the codex profile takes no notice of.
func TestIgnoredInStream(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		s := p.open("s", frame.Codex)
		for range 3 {
			p.send(heartbeatFrame("s"))
			p.send(ackFrame("s"))
			p.send(resumeFrame("s", frame.Codex, 0))
			p.send(resumeFrame("s", frame.Reliable, 7))
			p.roundTrip(s, "hello")
		}
	})
}

// A handshake in a stream is answered with a reset; the executor's stream stays.
func TestHandshakeInStream(t *testing.T) {
	for _, profile := range []frame.Profile{frame.Codex, frame.Reliable} {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				cfg := w.config()
				got := make(chan string, 2)
				cfg.Serve = func(ctx context.Context, conn rpc.Connection, _ StreamInfo) {
					for {
						msg, err := conn.Read(ctx)
						if err != nil {
							return
						}
						got <- string(msg)
					}
				}
				w.run(cfg)
				p := w.peer()
				s := p.open("s", profile)
				p.mu.Lock()
				delete(p.streams, "s") // so that the reset does not end this end
				p.mu.Unlock()
				p.harness("s", profile, "a").ask()
				p.wantReset("s", frame.ReasonProtocolError)
				if err := s.Write(t.Context(), []byte("still here")); err != nil {
					t.Fatal(err)
				}
				if msg := <-got; msg != "still here" {
					t.Errorf("got %q", msg)
				}
				if n := len(w.validated()); n != 1 {
					t.Errorf("the registry was asked %d times", n)
				}
			})
		})
	}
}

// A protocol error ends its own stream, with a reset, and no other.
func TestProtocolErrorEndsOneStream(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		bad, good := p.open("bad", frame.Codex), p.open("good", frame.Codex)
		p.roundTrip(bad, "hello")
		p.send(dataFrame("bad", 1+65, []byte("too far ahead of what is expected"))) // 64 is the largest lead
		p.dead(bad)
		p.roundTrip(good, "hello")
		p.roundTrip(p.open("next", frame.Codex), "hello")
	})
}

// A changed record harms its own stream at most (C-036).
func TestChangedRecord(t *testing.T) {
	bubble(t, func(_ *world, p *peer) {
		for _, profile := range []frame.Profile{frame.Codex, frame.Reliable} {
			bad, good := p.open("bad-"+string(profile), profile), p.open("good-"+string(profile), profile)
			p.roundTrip(bad, "one")
			f := dataFrame("bad-"+string(profile), 1, make([]byte, 40))
			p.send(f)
			p.roundTrip(good, "hello")
			if profile == frame.Reliable {
				p.roundTrip(bad, "two") // the true record for that number is still taken
			}
			p.roundTrip(p.open("next-"+string(profile), profile), "hello")
		}
	})
}

// A reset of the relay ends its stream: the session is detached by whoever serves it.
// Nothing answers a reset.
func TestReset(t *testing.T) {
	for _, profile := range []frame.Profile{frame.Codex, frame.Reliable} {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				cfg := w.config()
				served := make(chan error, 1)
				cfg.Serve = func(ctx context.Context, conn rpc.Connection, _ StreamInfo) {
					_, err := conn.Read(ctx)
					served <- err
				}
				w.run(cfg)
				p := w.peer()
				h := p.harness("s", profile, "a").ask()
				p.frame("s")
				p.send(resetFrame("s"))
				if err := <-served; err == nil {
					t.Error("the stream goes on")
				}
				p.wantQuiet("s")
				h.ask()
				p.frame("s") // the id is free again
			})
		})
	}
}

// Text messages and others that no carrier hands out are the carrier's business; here
// what a stream does not read holds up nobody else.
func TestSlowStreamHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := w.config()
		cfg.Serve = func(ctx context.Context, conn rpc.Connection, info StreamInfo) {
			if info.ID == "slow" {
				<-ctx.Done()
				return
			}
			echo(ctx, conn, info)
		}
		w.run(cfg)
		p := w.peer()
		slow, good := p.open("slow", frame.Codex), p.open("good", frame.Codex)
		for range 128 {
			if err := slow.Write(t.Context(), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		p.roundTrip(good, "hello")
		select {
		case <-slow.Done():
			t.Fatal("128 messages were too many")
		default:
		}
		if err := slow.Write(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		p.dead(slow) // the 129th
		p.roundTrip(good, "hello")
	})
}

// answering is a registry that always says the same.
func answering(status int, body any) func(context.Context, registry.ValidateRequest) (int, any) {
	return func(context.Context, registry.ValidateRequest) (int, any) { return status, body }
}

var _ relay.Carrier = probed{}
