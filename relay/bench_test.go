package relay_test

import (
	"bytes"
	"testing"
)

func BenchmarkRoundTrip(b *testing.B) {
	for _, p := range profiles {
		b.Run(string(p), func(b *testing.B) {
			x, y := pair(b, p)
			go func() {
				for {
					msg, err := y.Read(b.Context())
					if err != nil {
						return
					}
					if y.Write(b.Context(), msg) != nil {
						return
					}
				}
			}()
			msg := bytes.Repeat([]byte("x"), 200)
			b.ReportAllocs()
			for b.Loop() {
				if err := x.Write(b.Context(), msg); err != nil {
					b.Fatal(err)
				}
				if _, err := x.Read(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBulk(b *testing.B) {
	for _, p := range profiles {
		b.Run(string(p), func(b *testing.B) {
			x, y := pair(b, p)
			msg := bytes.Repeat([]byte("x"), 90<<10)
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			got := make(chan error, 1)
			go func() {
				for {
					m, err := y.Read(b.Context())
					if err != nil {
						got <- err
						return
					}
					if len(m) == 1 {
						got <- nil
						return
					}
				}
			}()
			for b.Loop() {
				if err := x.Write(b.Context(), msg); err != nil {
					b.Fatal(err)
				}
			}
			if err := x.Write(b.Context(), msg[:1]); err != nil {
				b.Fatal(err)
			}
			if err := <-got; err != nil {
				b.Fatal(err)
			}
		})
	}
}
