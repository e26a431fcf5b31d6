package arq

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestStreamAnyCut: a stream of messages is the same however it is cut into records.
func TestStreamAnyCut(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := limits{piece: 2000, message: 20_000}
		var stream []byte
		var want [][]byte
		for range 1 + r.IntN(8) {
			m := text(r, 1+r.IntN(1<<r.IntN(14)))
			want = append(want, m)
			stream = append(binary.BigEndian.AppendUint32(stream, uint32(len(m))), m...)
		}
		a := assembler{limits: &l}
		var got [][]byte
		most := 1 + r.IntN(1<<r.IntN(11))
		for len(stream) > 0 {
			n := min(r.IntN(most+1), len(stream)) // empty ones, too
			piece := bytes.Clone(stream[:n])
			stream = stream[n:]
			if problem := a.stream(piece, func(m message) { got = append(got, m.body) }); problem != "" {
				t.Fatalf("seed %d: %s", seed, problem)
			}
			// Byte by byte or not, what waits takes about its size.
			if n := len(a.parts.list); n > 8+a.parts.total/256 {
				t.Fatalf("seed %d: %d pieces for %d bytes", seed, n, a.parts.total)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d messages of %d", seed, len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("seed %d: message %d is another", seed, i)
			}
		}
	}
}

// TestStreamLimits: a length is refused as soon as it is there.
func TestStreamLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string
		want   string
	}{
		{"shortest", []string{"\x00\x00\x00\x01a"}, ""},
		{"longest", []string{"\x00\x00\x00\x64", strings.Repeat("a", 50), strings.Repeat("a", 50)}, ""},
		{"empty", []string{"\x00\x00\x00", "\x00"}, "message of 0 bytes"},
		{"too long", []string{"\x00\x00\x00\x65"}, "message of 101 bytes"},
		{"longest number", []string{"\xff\xff\xff\xff"}, "message of 4294967295 bytes"},
		{"empty after another", []string{"\x00\x00\x00\x01a\x00\x00\x00\x00"}, "message of 0 bytes"},
		{"piece too long", []string{strings.Repeat("\x00", 61)}, "piece of 61 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := assembler{limits: &limits{piece: 60, message: 100}}
			problem := ""
			for _, p := range c.pieces {
				if problem = a.stream([]byte(p), func(message) {}); problem != "" {
					break
				}
			}
			if problem != c.want {
				t.Errorf("%q, want %q", problem, c.want)
			}
		})
	}
}

// TestSegmentsTotal: a message cannot be longer than the longest, though its number of
// segments is within bounds.
func TestSegmentsTotal(t *testing.T) {
	a := assembler{limits: &limits{piece: 60, message: 100, pieces: 2}}
	if _, _, problem := a.segment(Data{Index: 0, Count: 2}, make([]byte, 60)); problem != "" {
		t.Fatal(problem)
	}
	if _, _, problem := a.segment(Data{Index: 1, Count: 2}, make([]byte, 60)); problem != "message of more than 100 bytes" {
		t.Errorf("%q", problem)
	}
	a = assembler{limits: &limits{piece: 60, message: 100, pieces: 2}}
	if _, _, problem := a.segment(Data{Index: 0, Count: 1}, nil); problem != "piece of 0 bytes" {
		t.Errorf("empty piece: %q", problem)
	}
}
