package frame

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

// A head and its payload are what Append makes of the same frame, for any numbers.
func TestHeadIsAFrame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	number := func() uint32 {
		return []uint32{0, 1, 127, 128, 1 << 20, math.MaxUint32, r.Uint32()}[r.IntN(7)]
	}
	for range 2000 {
		payload := make([]byte, 1+r.IntN(300))
		f := &relayv1.RelayMessageFrame{
			Version: Version, StreamId: strings.Repeat("é", 1+r.IntN(200)), AckBits: number(), Epoch: number(),
			Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{
				Seq: number(), SegmentIndex: number(), SegmentCount: number(), Payload: payload,
			}},
		}
		if r.IntN(2) == 0 {
			f.Ack = proto.Uint32(number())
		}
		if r.IntN(2) == 0 {
			f.Window = proto.Uint32(number())
		}
		before := []byte("before")
		head, err := AppendHead(before, f, len(payload))
		if err != nil {
			t.Fatal(err)
		}
		head, ok := bytes.CutPrefix(head, before)
		if !ok || len(head) > HeadBytes+len(f.StreamId) {
			t.Fatalf("head of %d bytes for a stream id of %d", len(head), len(f.StreamId))
		}
		whole, err := Append(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		if len(head)+len(payload) != len(whole) {
			t.Fatalf("%d and %d bytes, Append makes %d", len(head), len(payload), len(whole))
		}
		got, err := Decode(append(head, payload...))
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, f) {
			t.Fatalf("got %v, want %v", got, f)
		}
	}
}

// Without what only the reliable profile has, the bytes are those of Append, too: what
// the codex profile sends looks as codex writes it.
func TestHeadOfCodexIsCanonical(t *testing.T) {
	f := &relayv1.RelayMessageFrame{
		Version: Version, StreamId: "s",
		Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: 300, SegmentCount: 1, Payload: []byte("record")}},
	}
	head, err := AppendHead(nil, f, 6)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	if got := append(head, "record"...); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestNoHead(t *testing.T) {
	ok := &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{}}
	for name, c := range map[string]struct {
		f       *relayv1.RelayMessageFrame
		payload int
	}{
		"no data":     {&relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}}}, 1},
		"empty":       {&relayv1.RelayMessageFrame{Body: ok}, 0},
		"too long":    {&relayv1.RelayMessageFrame{Body: ok}, MaxBytes},
		"too long id": {&relayv1.RelayMessageFrame{Body: ok, StreamId: strings.Repeat("x", MaxStreamIDBytes+1)}, 1},
	} {
		if out, err := AppendHead([]byte("x"), c.f, c.payload); !errors.Is(err, ErrInvalid) || string(out) != "x" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}
