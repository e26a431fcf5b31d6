package arq

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAckEqualsModel compares what a receiver acknowledges with a plain set of what it
// was given, whatever comes in whatever order.
func TestAckEqualsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int{4, 16, 64, 256}).Draw(rt, "window")
		arrivals := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) arrival {
			return arrival{
				seq: rapid.Uint32Range(0, 300).Draw(rt, "seq"),
				// Most often near the next one.
				near: rapid.IntRange(-3, 40).Draw(rt, "near"),
				far:  rapid.IntRange(0, 9).Draw(rt, "far") == 0,
				bad:  rapid.IntRange(0, 7).Draw(rt, "bad") == 0,
				take: rapid.IntRange(0, 2).Draw(rt, "take"),
			}
		}), 0, 200).Draw(rt, "arrivals")
		if err := receiveAsModel(limit, arrivals); err != nil {
			rt.Fatal(err)
		}
	})
}

type arrival struct {
	seq      uint32
	near     int
	far, bad bool
	take     int
}

// receiveAsModel gives a receiver and a model of sets the same segments.
func receiveAsModel(limit int, arrivals []arrival) error {
	var ours, theirs fakeCipher
	cfg := config(&ours)
	cfg.limits.segments = limit
	now := time.Unix(0, 0)
	s := New(cfg, now)

	have := map[uint32]bool{} // what was received, the genuine
	fake := map[uint32]bool{} // what is kept and will not open
	next, window, waiting := uint32(0), uint32(limit), 0
	for i, a := range arrivals {
		seq := uint32(max(int(next)+a.near, 0))
		if a.far {
			seq = a.seq
		}
		theirs.sealed = uint64(seq)
		record, err := theirs.seal(Data{Seq: seq, Count: 1}, nil, fmt.Appendf(nil, "message %d", seq))
		if err != nil {
			return err
		}
		if a.bad {
			record[20] ^= 1
		}
		failures := s.receiver.failures
		if s.Handle(now, Frame{Kind: KindData, Data: Data{Seq: seq, Count: 1, Payload: record}}); s.Err() != nil {
			if failures < MaxFailures-1 {
				return fmt.Errorf("arrival %d: %w", i, s.Err())
			}
			return nil
		}
		// The model.
		if seq < window && seq < next+uint32(limit) && seq >= next && !have[seq] && !fake[seq] {
			have[seq], fake[seq] = !a.bad, a.bad
		}
		for have[next] || fake[next] {
			if fake[next] {
				delete(fake, next)
				continue
			}
			next++
			waiting++
		}
		for range a.take {
			if _, ok := s.Message(now); ok != (waiting > 0) {
				return fmt.Errorf("arrival %d: a message: %v, but %d wait", i, ok, waiting)
			}
			waiting = max(waiting-1, 0)
		}
		window = max(window, next+uint32(max(limit-waiting, 0)))
		want := Ack{HasAck: next > 0, HasWindow: true, Window: window}
		if next > 0 {
			want.Ack = next - 1
		}
		for bit := range uint32(32) {
			if have[next+bit] || fake[next+bit] {
				want.Bits |= 1 << bit
			}
		}
		if got := s.receiver.ack(); got != want {
			return fmt.Errorf("arrival %d, segment %d: ack %+v, want %+v", i, seq, got, want)
		}
		if err := check(s, now, false); err != nil {
			return err
		}
	}
	return nil
}

// TestQueueEqualsModel compares what a sender holds for resending with a plain set of
// what it sent, whatever acks come.
func TestQueueEqualsModel(t *testing.T) {
	type report struct {
		send, ack int
		bits      uint32
		wait      time.Duration
	}
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int{4, 16, 64}).Draw(rt, "window")
		reports := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) report {
			return report{
				send: rapid.IntRange(0, 8).Draw(rt, "send"),
				ack:  rapid.IntRange(-4, 12).Draw(rt, "ack"),
				bits: rapid.Uint32().Draw(rt, "bits") & rapid.Uint32().Draw(rt, "mask"),
				wait: time.Duration(rapid.IntRange(0, 400).Draw(rt, "wait")) * time.Millisecond,
			}
		}), 0, 100).Draw(rt, "reports")

		var cipher fakeCipher
		cfg := config(&cipher)
		cfg.limits.segments = limit
		cfg.GiveUp = time.Hour
		now := time.Unix(0, 0)
		s := New(cfg, now)
		sent, acked, credit := 0, 0, limit
		last := map[uint32][]byte{} // the record of each segment
		for i, r := range reports {
			for range r.send {
				if s.Writable() {
					if err := s.Write([]byte("x")); err != nil {
						rt.Fatal(err)
					}
				}
				for {
					f, ok := s.Next(now)
					if !ok {
						break
					}
					if f.Kind != KindData {
						continue
					}
					record, again := last[f.Data.Seq]
					switch {
					case again && &record[0] != &f.Data.Payload[0]:
						rt.Fatalf("report %d: segment %d as another record", i, f.Data.Seq)
					case again && int(f.Data.Seq) < acked:
						rt.Fatalf("report %d: segment %d was acknowledged", i, f.Data.Seq)
					case !again && int(f.Data.Seq) != sent:
						rt.Fatalf("report %d: segment %d, want %d", i, f.Data.Seq, sent)
					case !again:
						sent++
					}
					last[f.Data.Seq] = f.Data.Payload
				}
			}
			upto := acked + r.ack // the first that is not acknowledged
			a := Ack{Bits: r.bits, HasWindow: true, Window: uint32(max(upto, 0) + limit)}
			if upto > 0 {
				a.HasAck, a.Ack = true, uint32(upto-1)
			}
			upto = max(upto, 0)
			now = now.Add(r.wait)
			if err := s.Handle(now, Frame{Kind: KindAck, Ack: a}); err != nil {
				rt.Fatal(err)
			}
			if upto >= acked && upto <= sent {
				acked, credit = upto, max(credit, int(a.Window))
			}
			c := s.Cursors()
			if int(c.Acked) != acked || int(c.Credit) != credit || int(s.sender.sentTo) != sent {
				rt.Fatalf("report %d: %v, want acknowledged %d, welcome %d, sent %d", i, c, acked, credit, sent)
			}
			if err := check(s, now, false); err != nil {
				rt.Fatalf("report %d: %v", i, err)
			}
		}
	})
}
