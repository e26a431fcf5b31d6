package harness

import (
	"bytes"
	"regexp"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/frame"
)

func TestStreamIDs(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 100 {
		id := newStreamID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("stream id %s", id)
		}
		seen[id] = true
	}
}

func encode(t testing.TB, f *relayv1.RelayMessageFrame) []byte {
	t.Helper()
	message, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// Whose is an invalid frame?
func TestDecode(t *testing.T) {
	frameOf := func(id string, version uint32) []byte {
		return encode(t, &relayv1.RelayMessageFrame{
			Version: version, StreamId: id, Body: &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}},
		})
	}
	for _, tt := range []struct {
		name    string
		message []byte
		taken   bool
		bad     bool
	}{
		{"own", frameOf("own", 1), true, false},
		{"another's", frameOf("other", 1), false, false},
		{"own, invalid", frameOf("own", 2), false, true},
		{"another's, invalid", frameOf("other", 2), false, false},
		{"own, cut", frameOf("own", 1)[:8], false, true},
		{"another's, cut", append(frameOf("other", 1), 0x2a, 0x7f), false, false},
		{"nobody's", []byte{0x08, 1}, false, true},
		{"not protobuf", []byte("\xff\xff\xff"), false, true},
		{"empty", nil, false, true},
		{"own in the end", append(frameOf("other", 2), protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "own")...), false, true},
		{"too long", append(frameOf("other", 1), make([]byte, frame.MaxBytes)...), false, false},
	} {
		f, err := decode(tt.message, "own")
		if (f != nil) != tt.taken || (err != nil) != tt.bad {
			t.Errorf("%s: %v, %v", tt.name, f, err)
		}
	}
}

// The id that is found is that which protobuf finds, where protobuf finds any.
func FuzzStreamID(f *testing.F) {
	f.Add([]byte{0x08, 1, 0x12, 1, 'a', 0x12, 1, 'b'})
	f.Add([]byte{0x12, 5, 'a'})
	f.Add(bytes.Repeat([]byte{0x13}, 40))
	f.Fuzz(func(t *testing.T, message []byte) {
		id, said := streamID(message)
		if said != (id != "") && !said {
			t.Fatalf("%q without being said", id)
		}
		var full relayv1.RelayMessageFrame
		if proto.Unmarshal(message, &full) == nil && full.GetStreamId() != id {
			t.Fatalf("found %q, want %q", id, full.GetStreamId())
		}
	})
}
