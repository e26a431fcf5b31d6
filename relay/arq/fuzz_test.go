package arq

import (
	"encoding/binary"
	"testing"
	"time"
)

// FuzzHandle gives a stream of either profile any frames at any time, and lets its owner
// do anything in between. It must keep its invariants and bounds, and never panic; what
// it hands out was sealed by the peer.
func FuzzHandle(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte("\x00\x00\x01\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07"))
	f.Add([]byte("\x01\x10\x00\x00\x00\x01\x10\x00\x00\x01\x01\x10\x00\x00\x02\x0f\x0f"))
	for op := range byte(16) {
		f.Add([]byte{0, 3, 9, op, 1, 2, 3, 4, op, 0, 1, 0, 1, 3, 9, op, 0xff, 0xff, 0xff, 0xff, 5, 5, op, 8})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		var ours, theirs fakeCipher
		cfg := config(&ours)
		cfg.limits = limits{piece: 16, segments: 16, bytes: 256, message: 256, pieces: 16}
		in := input{script}
		if in.byte()&1 == 1 {
			cfg.Profile = Codex
		}
		now := time.Unix(0, 0)
		s := New(cfg, now)
		genuine := map[string]bool{}
		for len(in.rest) > 0 {
			settled := false
			switch op := in.byte() % 16; op {
			case 0, 1, 2: // the peer's next record, or one near it
				d := Data{Seq: uint32(int(ours.opened) + int(in.byte()%8) - 2), Index: uint32(in.byte() % 4), Count: uint32(in.byte() % 5)}
				if cfg.Profile == Codex {
					d.Index, d.Count = 0, 1
				}
				piece := in.bytes(int(in.byte() % 20))
				theirs.sealed = uint64(d.Seq)
				d.Payload, _ = theirs.seal(d, nil, piece)
				s.Handle(now, Frame{Kind: KindData, Data: d, Ack: Greeting(), Epoch: s.peer})
			case 3, 4: // any frame at all
				s.Handle(now, Frame{
					Kind:    Kind(in.byte() % 7),
					Data:    Data{Seq: in.uint32(), Index: in.uint32(), Count: in.uint32(), Payload: in.bytes(int(in.byte()))},
					NextSeq: in.uint32(),
					Reason:  string(in.bytes(3)),
					Ack:     Ack{HasAck: in.byte()&1 == 1, Ack: in.uint32(), Bits: in.uint32(), HasWindow: in.byte()&1 == 1, Window: in.uint32()},
					Epoch:   s.peer + uint32(in.byte()%3) - 1,
				})
			case 5, 6: // an ack that makes sense
				c := s.Cursors()
				a := Ack{HasWindow: true, Bits: uint32(in.byte())}
				if upto := c.Acked + uint64(in.byte()%4); upto > 0 {
					a.HasAck, a.Ack = true, uint32(upto-1)
					a.Window = uint32(upto) + uint32(in.byte()%17)
				}
				s.Handle(now, Frame{Kind: Kind(1 + in.byte()%5), Ack: a, Epoch: s.peer})
			case 7, 8:
				if s.Writable() {
					if err := s.Write(in.bytes(1 + int(in.byte()))); err != nil && len(in.rest) > 0 {
						continue
					}
				}
			case 9:
				now = now.Add(time.Duration(in.uint32()) * time.Microsecond)
				s.Advance(now)
			case 10:
				if d := s.Deadline(); !d.IsZero() {
					now = maxTime(now, d)
					s.Advance(now)
				}
			case 11:
				s.Detach(now)
			case 12:
				s.Attach(now)
			case 13:
				s.Message(now)
			case 14:
				s.Withdraw()
			case 15:
				for {
					fr, ok := s.Next(now)
					if !ok {
						break
					}
					if fr.Kind == KindData {
						record := string(fr.Data.Payload)
						if _, err := (&fakeCipher{opened: uint64(fr.Data.Seq)}).open(fr.Data); err != nil {
							t.Fatalf("segment %d is not what was sealed", fr.Data.Seq)
						}
						genuine[record] = true
					}
				}
				settled = true
			}
			if err := check(s, now, settled); err != nil {
				t.Fatal(err)
			}
		}
		if len(genuine) > ours.seals {
			t.Fatalf("%d records, sealed %d", len(genuine), ours.seals)
		}
	})
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// input deals out bytes, and zeroes after them.
type input struct{ rest []byte }

func (in *input) byte() byte {
	if len(in.rest) == 0 {
		return 0
	}
	b := in.rest[0]
	in.rest = in.rest[1:]
	return b
}

func (in *input) bytes(n int) []byte {
	n = min(n, len(in.rest))
	b := in.rest[:n:n]
	in.rest = in.rest[n:]
	return append([]byte(nil), b...)
}

func (in *input) uint32() uint32 {
	var b [4]byte
	copy(b[:], in.bytes(4))
	return binary.LittleEndian.Uint32(b[:])
}
