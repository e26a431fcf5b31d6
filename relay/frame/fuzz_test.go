package frame

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

// wantSame decodes message and holds the result against the generated decoder's.
func wantSame(message []byte) error {
	want := new(relayv1.RelayMessageFrame)
	err := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(message, want)
	if err == nil {
		err = Check(want)
	}
	got, gotErr := Decode(message)
	switch {
	case len(message) > MaxBytes:
		if !errors.Is(gotErr, ErrInvalid) {
			return errors.New("a frame over the limit is taken")
		}
		return nil
	case (err == nil) != (gotErr == nil):
		return errors.Join(errors.New("one decoder takes it, the other does not"), err, gotErr)
	case err != nil:
		if !errors.Is(gotErr, ErrInvalid) || got != nil {
			return gotErr
		}
		return nil
	case !proto.Equal(want, got):
		return errors.New(diff(want, got))
	}
	// Decode, encode, decode again agree.
	again, err := Append(nil, got)
	if err != nil {
		return err
	}
	second, err := Decode(again)
	if err != nil {
		return err
	}
	if !proto.Equal(got, second) {
		return errors.New(diff(got, second))
	}
	return nil
}

func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(unhex(f, v.Frame))
	}
	f.Add(mustAppend(f, with(data(1, 2, 3, "x"), func(f *relayv1.RelayMessageFrame) {
		f.Ack, f.Window, f.Epoch, f.Tracestate = proto.Uint32(1), proto.Uint32(2), 3, proto.String("a=b")
	})))
	f.Add(append(mustAppend(f, data(1, 2, 3, "x")), mustAppend(f, data(4, 0, 0, "y"))...)) // merged
	f.Add(append(mustAppend(f, data(1, 2, 3, "x")), mustAppend(f, reset("y"))...))         // replaced
	f.Fuzz(func(t *testing.T, message []byte) {
		held := bytes.Clone(message)
		if err := wantSame(message); err != nil {
			t.Fatalf("%x: %v", message, err)
		}
		if !bytes.Equal(held, message) {
			t.Fatal("the message was changed")
		}
	})
}

// The decoder without copies agrees with the generated one on whatever fields come in
// whatever order, as often as they like, well-formed or not.
func TestDecodersAgree(t *testing.T) {
	numbers := []protowire.Number{1, 1, 1, 2, 2, 2, 3, 4, 5, 5, 5, 5, 6, 7, 8, 10, 11, 20, 21, 22, 99}
	rapid.Check(t, func(rt *rapid.T) {
		message := fields(rt, numbers, 8, true)
		if rapid.IntRange(0, 9).Draw(rt, "cut") == 0 && len(message) > 0 {
			message = message[:rapid.IntRange(0, len(message)-1).Draw(rt, "length")]
		}
		if err := wantSame(message); err != nil {
			rt.Fatalf("%x: %v", message, err)
		}
	})
}

// fields draws up to most fields of the given numbers, of RelayMessageFrame or, in it, of
// RelayData.
func fields(rt *rapid.T, numbers []protowire.Number, most int, outer bool) []byte {
	rarely := func(what string) bool { return rapid.IntRange(0, 19).Draw(rt, what) == 0 }
	var b []byte
	for range rapid.IntRange(0, most).Draw(rt, "fields") {
		number := rapid.SampledFrom(numbers).Draw(rt, "number")
		isNumber := number < 4
		if outer {
			isNumber = number != 2 && number < 5 || number == 20 || number >= 22
		}
		if rarely("other type") {
			isNumber = !isNumber
		}
		switch {
		case rarely("fixed"):
			b = protowire.AppendTag(b, number, protowire.Fixed32Type)
			b = protowire.AppendFixed32(b, 7)
		case isNumber:
			value := uint64(Version)
			if !outer || number != 1 || rarely("version") {
				value = rapid.Uint64().Draw(rt, "value")
			}
			b = protowire.AppendTag(b, number, protowire.VarintType)
			b = protowire.AppendVarint(b, value)
		default:
			value := rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(rt, "bytes")
			switch {
			case outer && number == 5:
				value = fields(rt, []protowire.Number{1, 2, 3, 4, 4, 9}, 5, false)
			case outer && number == 2:
				value = []byte(rapid.SampledFrom([]string{"stream", "s", " ", "\xff"}).Draw(rt, "stream"))
			}
			b = protowire.AppendTag(b, number, protowire.BytesType)
			b = protowire.AppendBytes(b, value)
		}
	}
	return b
}

func BenchmarkFrames(b *testing.B) {
	f := data(7, 0, 1, string(make([]byte, 61_456)))
	message := mustAppend(b, f)
	b.Run("append", func(b *testing.B) {
		out := make([]byte, 0, len(message))
		b.SetBytes(61_440)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Append(out, f); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(61_440)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(message); err != nil {
				b.Fatal(err)
			}
		}
	})
	small := mustAppend(b, with(ackFrame(100, 1), func(f *relayv1.RelayMessageFrame) { f.Window = proto.Uint32(300) }))
	b.Run("decode/ack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(small); err != nil {
				b.Fatal(err)
			}
		}
	})
}
