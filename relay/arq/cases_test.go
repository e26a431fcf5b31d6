package arq

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// TestC035LostRepeatedReordered: a request and a reply of 300 KiB over each kind of bad
// network arrive once and whole, and what is sent again are the same bytes.
func TestC035LostRepeatedReordered(t *testing.T) {
	request := text(rand.New(rand.NewPCG(1, 1)), 300<<10)
	reply := text(rand.New(rand.NewPCG(2, 2)), 300<<10)
	for _, c := range []struct {
		name   string
		filter func(p *pair) func(from int, f Frame) []Frame
	}{
		{"every 5th data frame dropped once", func(*pair) func(int, Frame) []Frame {
			dropped := [2]map[uint32]bool{{}, {}}
			return func(from int, f Frame) []Frame {
				if f.Kind == KindData && f.Data.Seq%5 == 4 && !dropped[from][f.Data.Seq] {
					dropped[from][f.Data.Seq] = true
					return nil
				}
				return []Frame{f}
			}
		}},
		{"each frame three times", func(*pair) func(int, Frame) []Frame {
			return func(_ int, f Frame) []Frame { return []Frame{f, f, f} }
		}},
		{"reversed in groups of 8", func(*pair) func(int, Frame) []Frame {
			var group [2][]Frame
			return func(from int, f Frame) []Frame {
				group[from] = append(group[from], f)
				if len(group[from]) < 8 && f.Kind == KindData && f.Data.Index < f.Data.Count-1 {
					return nil
				}
				var reversed []Frame
				for _, g := range group[from] {
					reversed = append([]Frame{g}, reversed...)
				}
				group[from] = nil
				return reversed
			}
		}},
		{"all acks dropped for 2 s", func(p *pair) func(int, Frame) []Frame {
			until := p.now.Add(2 * time.Second)
			return func(_ int, f Frame) []Frame {
				if p.now.Before(until) && f.Kind == KindAck {
					return nil
				}
				return []Frame{f}
			}
		}},
		{"300 repeats of each ack", func(*pair) func(int, Frame) []Frame {
			return func(_ int, f Frame) []Frame {
				if f.Kind != KindAck {
					return []Frame{f}
				}
				repeats := make([]Frame, 300)
				for i := range repeats {
					repeats[i] = f
				}
				return repeats
			}
		}},
		{"the last segment lost and nothing after it", func(*pair) func(int, Frame) []Frame {
			var lost [2]bool
			return func(from int, f Frame) []Frame {
				if f.Kind == KindData && f.Data.Index == f.Data.Count-1 && !lost[from] {
					lost[from] = true
					return nil
				}
				return []Frame{f}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, Config{})
			p.filter = c.filter(p)
			p.send(0, request, time.Minute)
			p.wantMessages(1, request)
			p.send(1, reply, time.Minute)
			p.wantMessages(0, reply)
			p.advance(10 * time.Minute)
			p.wantMessages(1, request)
			p.wantMessages(0, reply)
			for i, s := range p.ends {
				p.wantIdentical(i)
				if !s.Flushed() || s.Err() != nil {
					t.Errorf("end %d: flushed %v, %v", i, s.Flushed(), s.Err())
				}
				if p.ciphers[i].seals != 5 {
					t.Errorf("end %d sealed %d records", i, p.ciphers[i].seals)
				}
			}
		})
	}
}

// TestC036ChangedRecord: a record that was changed, cut or swapped is never processed,
// and the true one still works; the other stream knows nothing of it.
func TestC036ChangedRecord(t *testing.T) {
	message := bytes.Repeat([]byte("message "), 20_000) // 3 segments
	for _, c := range []struct {
		name   string
		change func(f Frame, other Frame) []Frame
	}{
		{"a bit flipped", func(f, _ Frame) []Frame {
			f.Data.Payload = bytes.Clone(f.Data.Payload)
			f.Data.Payload[len(f.Data.Payload)/2] ^= 0x10
			return []Frame{f}
		}},
		{"cut to nothing", func(f, _ Frame) []Frame {
			f.Data.Payload = f.Data.Payload[:0]
			return []Frame{f}
		}},
		{"cut to 15 bytes", func(f, _ Frame) []Frame {
			f.Data.Payload = f.Data.Payload[:15]
			return []Frame{f}
		}},
		{"longer than any", func(f, _ Frame) []Frame {
			f.Data.Payload = make([]byte, MaxRecord+1)
			return []Frame{f}
		}},
		{"another number", func(f, _ Frame) []Frame {
			f.Data.Seq++
			return []Frame{f}
		}},
		{"another place in the message", func(f, _ Frame) []Frame {
			f.Data.Index, f.Data.Count = 0, 1
			return []Frame{f}
		}},
		{"played from the other stream", func(f, other Frame) []Frame {
			f.Data.Payload = other.Data.Payload
			return []Frame{f}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			two := newPair(t, Config{})
			two.send(0, []byte("something else"), time.Second)
			other := two.sent[0][0]

			one := newPair(t, Config{})
			changed := map[uint32]bool{}
			one.filter = func(from int, f Frame) []Frame {
				if f.Kind == KindData && !changed[f.Data.Seq] {
					changed[f.Data.Seq] = true
					return c.change(f, other)
				}
				return []Frame{f}
			}
			one.send(0, message, time.Minute)
			one.wantMessages(1, message)
			if s := one.ends[1].Stats(); s.Unopened+s.Malformed == 0 {
				t.Errorf("nothing was refused: %+v", s)
			}
			two.send(1, message, time.Minute)
			two.wantMessages(0, message)
		})
	}
	t.Run("two swapped", func(t *testing.T) {
		p := newPair(t, Config{})
		var held *Frame
		swapped := false
		p.filter = func(_ int, f Frame) []Frame {
			if f.Kind != KindData || swapped {
				return []Frame{f}
			}
			if held == nil {
				held = &f
				return nil
			}
			swapped = true
			a, b := *held, f
			a.Data.Payload, b.Data.Payload = b.Data.Payload, a.Data.Payload
			return []Frame{a, b}
		}
		p.send(0, message, time.Minute)
		p.wantMessages(1, message)
	})
	t.Run("codex is reset", func(t *testing.T) {
		p := newPair(t, Config{Profile: Codex})
		p.filter = func(_ int, f Frame) []Frame {
			if f.Kind == KindData && f.Data.Seq == 1 {
				f.Data.Payload = bytes.Clone(f.Data.Payload)
				f.Data.Payload[20] ^= 1
			}
			return []Frame{f}
		}
		p.send(0, message, time.Minute)
		p.wantMessages(1)
		if _, ok := errors.AsType[*ProtocolError](p.ends[1].Err()); !ok {
			t.Errorf("receiver: %v", p.ends[1].Err())
		}
		if _, ok := errors.AsType[*ResetError](p.ends[0].Err()); !ok {
			t.Errorf("sender: %v", p.ends[0].Err())
		}
	})
}
