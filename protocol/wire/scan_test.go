package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
)

// Long strings are looked at piece by piece: what is special is found wherever it is.
func TestLongStrings(t *testing.T) {
	for _, size := range []int{longString - 1, longString, scanBytes - 1, scanBytes, scanBytes + 1, 3*scanBytes + 7} {
		for _, at := range []int{0, 1, longString - 1, scanBytes - 2, scanBytes - 1, scanBytes, size - 1} {
			for _, special := range []string{"a", "\"", `\`, `\n`, `\u00e9`, "\n", "\x7f", "é", "\xe9"} {
				if at > size-1 || at < 0 {
					continue
				}
				body := bytes.Repeat([]byte("b"), size)
				body = append(body[:at:at], append([]byte(special), body[at:]...)...)
				for _, text := range [][]byte{append(append([]byte(`"`), body...), '"'), append([]byte(`"`), body...)} {
					s := &scanner{src: text}
					err := s.document()
					valid := json.Valid(text) && special != "\xe9" // which encoding/json lets pass
					if (err == nil) != valid {
						t.Errorf("%d bytes with %q at %d, ended %v: %v", size, special, at, text[len(text)-1] == '"', err)
					}
				}
			}
		}
	}
}

func BenchmarkLongString(b *testing.B) {
	for _, size := range []int{100, 5 << 10, 22 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			text := append(append([]byte(`"`), bytes.Repeat([]byte("b"), size)...), '"')
			b.SetBytes(int64(size))
			for b.Loop() {
				s := &scanner{src: text}
				if err := s.document(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
