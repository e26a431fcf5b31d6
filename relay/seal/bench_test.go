package seal

import (
	"fmt"
	"testing"
)

// BenchmarkHandshake is both ends of a handshake, with static keys that exist already.
func BenchmarkHandshake(b *testing.B) {
	executor, harness := newIdentityT(b), newIdentityT(b)
	b.ReportAllocs()
	for b.Loop() {
		i, err := NewInitiator(harness, executor.Public(), testPrologue)
		if err != nil {
			b.Fatal(err)
		}
		r, err := NewResponder(executor, testPrologue)
		if err != nil {
			b.Fatal(err)
		}
		(&pair{i, r}).message1(b, "authorization", true)
		m2, _, err := r.WriteMessage2()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := i.ReadMessage2(m2); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRejectedMessage1 is what a message that somebody made up costs an executor.
func BenchmarkRejectedMessage1(b *testing.B) {
	executor := newIdentityT(b)
	message := make([]byte, Message1Overhead)
	message[kemCipher] = 9
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewResponder(executor, testPrologue)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := r.ReadMessage1(message); err == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	for _, size := range []int{64, 1024, 16 << 10, MaxPlaintext} {
		text := make([]byte, size)
		b.Run(fmt.Sprintf("seal/%d", size), func(b *testing.B) {
			s, _ := fixedTransports()
			out := make([]byte, 0, MaxRecord)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Seal(out, s.Next(), text, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("open/%d", size), func(b *testing.B) {
			s, o := fixedTransports()
			record, err := s.Seal(nil, 0, text, nil)
			if err != nil {
				b.Fatal(err)
			}
			out := make([]byte, 0, MaxRecord)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				o.cipher.SetNonce(0)
				if _, err := o.Open(out, 0, record, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
