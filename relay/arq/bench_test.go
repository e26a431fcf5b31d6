package arq

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// aesGCM is the cipher that relay/seal uses, for a measure of what it costs beside the
// state machine.
type aesGCM struct{ aead cipher.AEAD }

func newAESGCM(b *testing.B) aesGCM {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		b.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		b.Fatal(err)
	}
	return aesGCM{aead}
}

func (c aesGCM) nonce(seq uint32) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), uint64(seq))
}

func (c aesGCM) seal(d Data, prefix, piece []byte) ([]byte, error) {
	record := make([]byte, 0, len(prefix)+len(piece)+tagSize)
	if len(prefix) == 0 {
		return c.aead.Seal(record, c.nonce(d.Seq), piece, nil), nil
	}
	record = append(append(record, prefix...), piece...)
	return c.aead.Seal(record[:0], c.nonce(d.Seq), record, nil), nil
}

func (c aesGCM) open(d Data) ([]byte, error) {
	return c.aead.Open(d.Payload[:0], c.nonce(d.Seq), d.Payload, nil)
}

// BenchmarkStream sends messages over a healthy stream, both ends in one goroutine.
func BenchmarkStream(b *testing.B) {
	for _, profile := range []Profile{Reliable, Codex} {
		for _, crypto := range []string{"none", "aes-gcm"} {
			for _, size := range []int{100, 60_000, 1 << 20} {
				name := fmt.Sprintf("%s/%s/%d", [...]string{"reliable", "codex"}[profile], crypto, size)
				b.Run(name, func(b *testing.B) { benchmarkStream(b, profile, crypto, size) })
			}
		}
	}
}

func benchmarkStream(b *testing.B, profile Profile, crypto string, size int) {
	now := time.Unix(0, 0)
	var ends [2]*Stream
	for i := range ends {
		cfg := Config{Profile: profile}
		if crypto == "aes-gcm" {
			c := newAESGCM(b)
			cfg.Seal, cfg.Open = c.seal, c.open
		} else {
			cfg.Seal = func(_ Data, prefix, piece []byte) ([]byte, error) {
				return append(append(make([]byte, 0, len(prefix)+len(piece)), prefix...), piece...), nil
			}
			cfg.Open = func(d Data) ([]byte, error) { return d.Payload, nil }
		}
		ends[i] = New(cfg, now)
	}
	message := make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if err := ends[0].Write(message); err != nil {
			b.Fatal(err)
		}
		for !ends[0].Writable() {
			now = now.Add(time.Microsecond)
			for i, s := range ends {
				for f, ok := s.Next(now); ok; f, ok = s.Next(now) {
					if crypto == "aes-gcm" && f.Kind == KindData { // opened in place: the network's copy
						f.Data.Payload = append([]byte(nil), f.Data.Payload...)
					}
					if err := ends[1-i].Handle(now, f); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		if m, ok := ends[1].Message(now); !ok || len(m) != size {
			b.Fatal("no message")
		}
	}
	b.ReportMetric(float64(ends[0].Stats().SentData)/b.Elapsed().Seconds(), "segments/s")
	b.ReportMetric(float64(ends[1].Stats().SentAcks)/float64(ends[0].Stats().SentData), "acks/segment")
}
