package frame

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

const streamID = "0f8fad5b-d9cb-469f-a165-70867728950e"

// frame makes a frame with the body of one that has only a body.
func frame(body *relayv1.RelayMessageFrame) *relayv1.RelayMessageFrame {
	body.Version, body.StreamId = 1, streamID
	return body
}

func data(seq, index, count uint32, payload string) *relayv1.RelayMessageFrame {
	return frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{
		Seq: seq, SegmentIndex: index, SegmentCount: count, Payload: []byte(payload),
	}}})
}

func resume(seq uint32) *relayv1.RelayMessageFrame {
	return frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{NextSeq: seq}}})
}

func handshake(payload string) *relayv1.RelayMessageFrame {
	return frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: []byte(payload)}}})
}

func reset(reason string) *relayv1.RelayMessageFrame {
	return frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: reason}}})
}

func heartbeat() *relayv1.RelayMessageFrame {
	return frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}}})
}

func ackFrame(ack, bits uint32) *relayv1.RelayMessageFrame {
	return frame(&relayv1.RelayMessageFrame{Ack: &ack, AckBits: bits, Body: &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}}})
}

// with returns f after change.
func with(f *relayv1.RelayMessageFrame, change func(f *relayv1.RelayMessageFrame)) *relayv1.RelayMessageFrame {
	change(f)
	return f
}

func mustAppend(t testing.TB, f *relayv1.RelayMessageFrame) []byte {
	t.Helper()
	b, err := Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// raw encodes f without checking it.
func raw(t testing.TB, f *relayv1.RelayMessageFrame) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func diff(a, b *relayv1.RelayMessageFrame) string { return cmp.Diff(a, b, protocmp.Transform()) }

type vector struct {
	Name, Frame string
	Stream      string `json:"stream_id"`
	Seq         uint32
	Payload     string
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var v []vector
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v) < 13 {
		t.Fatalf("%d vectors", len(v))
	}
	return v
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The frames of the codex peer are read and written to the byte.
func TestVectors(t *testing.T) {
	want := map[string]*relayv1.RelayMessageFrame{
		"resume next_seq=0 (body is an empty message)":              resume(0),
		"handshake payload=010203":                                  handshake("\x01\x02\x03"),
		"data seq=0 segment_index=0 segment_count=1 payload=aabb":   data(0, 0, 1, "\xaa\xbb"),
		"data seq=300 segment_index=0 segment_count=1 payload=aabb": data(300, 0, 1, "\xaa\xbb"),
		"reset reason=noise_relay_protocol_error":                   reset(ReasonProtocolError),
		"ack_frame ack=5 ack_bits=3":                                ackFrame(5, 3),
		"heartbeat":                                                 heartbeat(),
	}
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			f := want[v.Name]
			delete(want, v.Name)
			if f == nil { // a record
				f = data(v.Seq, 0, 1, string(unhex(t, v.Payload)))
				f.StreamId = v.Stream
			}
			if got := hex.EncodeToString(mustAppend(t, f)); got != v.Frame {
				t.Errorf("encoded %s, want %s", got, v.Frame)
			}
			got, err := Decode(unhex(t, v.Frame))
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(f, got); d != "" {
				t.Errorf("decoded (-want +got):\n%s", d)
			}
		})
	}
	if len(want) > 0 {
		t.Errorf("no vector for %v", want)
	}
}

// Every field of both profiles comes back, and presence is kept.
func TestRoundTrip(t *testing.T) {
	for name, f := range map[string]*relayv1.RelayMessageFrame{
		"data":           data(1, 2, 3, "payload"),
		"large":          data(math.MaxUint32, 1092, 1093, strings.Repeat("x", 61_456)),
		"resume":         resume(7),
		"handshake":      handshake("x"),
		"reset":          reset("any text\n"),
		"heartbeat":      heartbeat(),
		"ack 0":          ackFrame(0, 0),
		"ack":            ackFrame(math.MaxUint32, math.MaxUint32),
		"blanks around":  with(heartbeat(), func(f *relayv1.RelayMessageFrame) { f.StreamId = " é " }),
		"longest stream": with(heartbeat(), func(f *relayv1.RelayMessageFrame) { f.StreamId = strings.Repeat("s", MaxStreamIDBytes) }),
		"reliable data": with(data(1, 0, 1, "x"), func(f *relayv1.RelayMessageFrame) {
			f.Ack, f.AckBits, f.Window, f.Epoch = proto.Uint32(0), 5, proto.Uint32(0), 3
		}),
		"reliable resume": with(resume(9), func(f *relayv1.RelayMessageFrame) {
			f.Window, f.Profile, f.Epoch = proto.Uint32(256), "reliable-1", 1
		}),
		"traced": with(data(1, 0, 1, "x"), func(f *relayv1.RelayMessageFrame) {
			f.Traceparent, f.Tracestate = proto.String("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), proto.String("")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Append([]byte("before"), f)
			if err != nil {
				t.Fatal(err)
			}
			encoded, is := bytes.CutPrefix(b, []byte("before"))
			if !is {
				t.Fatalf("what was in dst is gone: %.20q", b)
			}
			got, err := Decode(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(f, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	for name, f := range map[string]*relayv1.RelayMessageFrame{
		"no version":      with(heartbeat(), func(f *relayv1.RelayMessageFrame) { f.Version = 0 }),
		"version 2":       with(data(0, 0, 1, "x"), func(f *relayv1.RelayMessageFrame) { f.Version = 2 }),
		"no stream":       with(heartbeat(), func(f *relayv1.RelayMessageFrame) { f.StreamId = "" }),
		"blank stream":    with(data(0, 0, 1, "x"), func(f *relayv1.RelayMessageFrame) { f.StreamId = " \t\u2003\n" }),
		"long stream":     with(heartbeat(), func(f *relayv1.RelayMessageFrame) { f.StreamId = strings.Repeat("s", MaxStreamIDBytes+1) }),
		"no body":         frame(&relayv1.RelayMessageFrame{}),
		"empty data":      data(1, 0, 1, ""),
		"empty handshake": handshake(""),
		"empty reset":     reset(""),
		"too long":        handshake(strings.Repeat("x", MaxBytes)),
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := Append([]byte("x"), f); !errors.Is(err, ErrInvalid) || string(b) != "x" {
				t.Errorf("encoded %d bytes, %v", len(b), err)
			}
			if got, err := Decode(raw(t, f)); !errors.Is(err, ErrInvalid) || got != nil {
				t.Errorf("decoded %v, %v", got, err)
			}
		})
	}
	// What only a program of ours can make.
	for name, f := range map[string]*relayv1.RelayMessageFrame{
		"nil":            nil,
		"data nil":       frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Data{}}),
		"handshake nil":  frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Handshake{}}),
		"reset nil":      frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Reset_{}}),
		"ack nil":        frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_AckFrame{}}),
		"resume nil":     frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Resume{}}),
		"heartbeat nil":  frame(&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Heartbeat{}}),
		"stream not UTF": with(heartbeat(), func(f *relayv1.RelayMessageFrame) { f.StreamId = "\xff" }),
	} {
		if b, err := Append(nil, f); !errors.Is(err, ErrInvalid) || b != nil {
			t.Errorf("%s: encoded %d bytes, %v", name, len(b), err)
		}
	}
	// What only a peer can.
	good := mustAppend(t, data(1, 0, 1, "payload"))
	for name, b := range map[string][]byte{
		"empty":          {},
		"text":           []byte(`{"method":"initialize"}`),
		"cut":            good[:len(good)-1],
		"cut in the tag": append(bytes.Clone(good), 0x80),
		"stream not UTF": append(bytes.Clone(good), 0x12, 1, 0xff),
		"field 0":        append(bytes.Clone(good), 0, 0),
		"body unknown":   append(raw(t, frame(&relayv1.RelayMessageFrame{})), protowire.AppendBytes(protowire.AppendTag(nil, 13, protowire.BytesType), nil)...),
	} {
		if f, err := Decode(b); !errors.Is(err, ErrInvalid) || f != nil {
			t.Errorf("%s: decoded %v, %v", name, f, err)
		}
	}
	if _, err := Decode(append(good, make([]byte, MaxBytes)...)); !errors.Is(err, ErrInvalid) {
		t.Errorf("too long: %v", err)
	}
}

// An unknown field is ignored, and not passed on.
func TestUnknownFields(t *testing.T) {
	f := data(1, 0, 1, "payload")
	b := mustAppend(t, f)
	b = protowire.AppendTag(b, 99, protowire.BytesType)
	b = protowire.AppendString(b, "from the future")
	b = protowire.AppendTag(b, 1, protowire.Fixed32Type) // a known number, another type
	b = protowire.AppendFixed32(b, 5)
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(f, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestCheckSegment(t *testing.T) {
	for _, tt := range []struct {
		seq, index, count uint32
		codex, reliable   bool
	}{
		{0, 0, 1, true, true},
		{math.MaxUint32, 0, 1, true, true},
		{0, 0, 0, false, false},
		{1, 1, 1, false, false},
		{0, 0, 2, false, true},
		{1, 1, 2, false, true},
		{0, 1, 2, false, false}, // would have begun before 0
		{5, 2, 2, false, false},
		{1092, 1092, MaxSegments, false, true},
		{1093, 1093, MaxSegments + 1, false, false},
		{0, 0, MaxSegments + 1, false, false},
		{0, 0, math.MaxUint32, false, false},
		{math.MaxUint32, 0, 2, false, false}, // would wrap
		{math.MaxUint32, 1, 2, false, true},
		{math.MaxUint32 - 1, 0, 2, false, true},
	} {
		d := &relayv1.RelayData{Seq: tt.seq, SegmentIndex: tt.index, SegmentCount: tt.count}
		for p, want := range map[Profile]bool{Codex: tt.codex, Reliable: tt.reliable} {
			err := CheckSegment(d, p)
			if (err == nil) != want || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: seq %d, segment %d of %d: %v", p, tt.seq, tt.index, tt.count, err)
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	for field, want := range map[string]Profile{
		"": Codex, "codex": Codex, "reliable-1": Reliable, "reliable-2": Codex, "RELIABLE-1": Codex,
	} {
		f := with(resume(0), func(f *relayv1.RelayMessageFrame) { f.Profile = field })
		if got := ProfileOf(f); got != want {
			t.Errorf("profile %q is %q, want %q", field, got, want)
		}
	}
	if Codex.Field() != "" || Reliable.Field() != "reliable-1" {
		t.Errorf("fields %q and %q", Codex.Field(), Reliable.Field())
	}
}

func TestAdditionalData(t *testing.T) {
	d := &relayv1.RelayData{Seq: 9, SegmentIndex: 0x102, SegmentCount: 0x304, Payload: []byte("x")}
	if got := AdditionalData(d, Codex); got != nil {
		t.Errorf("codex: %x", got)
	}
	if got := AdditionalData(d, Reliable); !bytes.Equal(got, []byte{0, 0, 1, 2, 0, 0, 3, 4}) {
		t.Errorf("reliable: %x", got)
	}
}

func TestKind(t *testing.T) {
	for want, f := range map[string]*relayv1.RelayMessageFrame{
		"data": data(0, 0, 1, "x"), "ack": ackFrame(1, 0), "resume": resume(0), "reset": reset("x"),
		"heartbeat": heartbeat(), "handshake": handshake("x"), "none": nil,
	} {
		if got := Kind(f); got != want {
			t.Errorf("kind %q, want %q", got, want)
		}
	}
}

// A bulk transfer does not copy on reading: the payload lies in the message.
func TestDecodeDoesNotCopy(t *testing.T) {
	f := with(data(5, 0, 1, "payload"), func(f *relayv1.RelayMessageFrame) { f.Ack, f.Window = proto.Uint32(4), proto.Uint32(260) })
	b := mustAppend(t, f)
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("payload"))
	payload := got.GetData().GetPayload()
	if &payload[0] != &b[at] {
		t.Error("the payload was copied")
	}
	if cap(payload) != len(payload) {
		t.Error("who appends to the payload writes into the message")
	}
}
