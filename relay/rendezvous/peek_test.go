package rendezvous

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/frame"
)

// message encodes a frame of a stream.
func message(t testing.TB, stream string, profile frame.Profile, body string) []byte {
	t.Helper()
	f := &relayv1.RelayMessageFrame{Version: frame.Version, StreamId: stream, Profile: profile.Field()}
	switch body {
	case "resume":
		f.Body = &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}}
	case "handshake":
		f.Body = &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: []byte("hello")}}
	case "reset":
		f.Body = &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: "over"}}
	case "data":
		f.Body = &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: 3, SegmentCount: 1, Payload: []byte("record")}}
	case "heartbeat":
		f.Body = &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}}
	}
	b, err := frame.Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPeek(t *testing.T) {
	for _, c := range []struct {
		body    string
		profile frame.Profile
		kind    kind
	}{
		{"resume", frame.Codex, kindResume},
		{"resume", frame.Reliable, kindResume},
		{"handshake", frame.Reliable, kindHandshake},
		{"reset", frame.Codex, kindReset},
		{"data", frame.Codex, 5},
		{"heartbeat", frame.Codex, 9},
	} {
		g, ok := peek(message(t, "a stream", c.profile, c.body))
		if !ok || string(g.stream) != "a stream" || g.kind != c.kind || g.profile != c.profile {
			t.Errorf("%s, %s: %q %d %s %v", c.body, c.profile, g.stream, g.kind, g.profile, ok)
		}
	}
}

func TestPeekRefuses(t *testing.T) {
	good := message(t, "s", frame.Codex, "data")
	stream := func(id string) []byte {
		b := protowire.AppendTag(nil, fieldStreamID, protowire.BytesType)
		b = protowire.AppendString(b, id)
		b = protowire.AppendTag(b, protowire.Number(kindResume), protowire.BytesType)
		return protowire.AppendBytes(b, nil)
	}
	for name, m := range map[string][]byte{
		"nothing":          nil,
		"cut":              good[:len(good)-1],
		"garbage":          []byte("\xff\xff\xff\xff"),
		"no body":          stream("s")[:3],
		"no stream":        stream(""),
		"a blank stream":   stream(" \t"),
		"not UTF-8":        stream("\xff"),
		"an endless name":  stream(strings.Repeat("x", MaxStreamID+1)),
		"a broken varint":  {0x08, 0x80},
		"a field number 0": {0x02, 0x00},
	} {
		if g, ok := peek(m); ok {
			t.Errorf("%s is taken: %+v", name, g)
		}
	}
	if _, ok := peek(stream(strings.Repeat("x", MaxStreamID))); !ok {
		t.Error("the longest name is refused")
	}
}

// FuzzPeek: what the relay sees in a frame is what its ends see.
func FuzzPeek(f *testing.F) {
	for _, body := range []string{"resume", "handshake", "reset", "data", "heartbeat"} {
		f.Add(message(f, "s", frame.Reliable, body))
	}
	f.Add([]byte{0x12, 0x01, 's', 0x3a, 0x00})
	f.Fuzz(func(t *testing.T, m []byte) {
		g, ok := peek(m)
		decoded, err := frame.Decode(append([]byte{}, m...))
		if err != nil {
			return
		}
		if !ok {
			t.Fatalf("a frame of stream %q is dropped", decoded.GetStreamId())
		}
		if string(g.stream) != decoded.GetStreamId() || g.profile != frame.ProfileOf(decoded) {
			t.Fatalf("peek sees %q %s, the ends %q %s", g.stream, g.profile, decoded.GetStreamId(), frame.ProfileOf(decoded))
		}
		if reset := decoded.GetReset_() != nil; reset != (g.kind == kindReset) {
			t.Fatalf("peek sees kind %d, the ends a %s", g.kind, frame.Kind(decoded))
		}
	})
}
