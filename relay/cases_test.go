package relay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// path is a way to the relay with a filter on what this end sends.
func path(sends simnet.Filter) simnet.CarrierConfig {
	return simnet.CarrierConfig{Latency: 10 * time.Millisecond, Forth: sends}
}

// A ledger sees every data frame that an end sends, and that one which comes again is
// the same.
type ledger struct {
	mu      sync.Mutex
	sums    map[uint32][32]byte
	again   int
	changed []uint32
}

func (l *ledger) filter(raw []byte) []simnet.Delivery {
	return data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
		d := m.GetData()
		l.mu.Lock()
		defer l.mu.Unlock()
		place := fmt.Sprint(d.GetSegmentIndex(), d.GetSegmentCount())
		sum := sha256.Sum256(append([]byte(place), d.GetPayload()...))
		if first, ok := l.sums[d.GetSeq()]; ok {
			l.again++
			if first != sum {
				l.changed = append(l.changed, d.GetSeq())
			}
		} else if l.sums == nil {
			l.sums = map[uint32][32]byte{d.GetSeq(): sum}
		} else {
			l.sums[d.GetSeq()] = sum
		}
		return simnet.Pass(raw)
	})(raw)
}

func dropEveryFifthOnce() simnet.Filter {
	seen := make(map[uint32]bool)
	return data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
		seq := m.GetData().GetSeq()
		if seq%5 == 4 && !seen[seq] {
			seen[seq] = true
			return nil
		}
		return simnet.Pass(raw)
	})
}

func threeTimes(raw []byte) []simnet.Delivery {
	return []simnet.Delivery{{Frame: raw}, {Frame: bytes.Clone(raw)}, {Frame: bytes.Clone(raw), After: time.Millisecond}}
}

// reversedByEight has each group of eight data frames arrive in reverse.
func reversedByEight() simnet.Filter {
	return data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
		return []simnet.Delivery{{Frame: raw, After: time.Duration(8-m.GetData().GetSeq()%8) * time.Millisecond}}
	})
}

// acksLostFor drops frames that carry an ack for the first while.
func acksLostFor(d time.Duration) simnet.Filter {
	from := time.Now()
	return func(raw []byte) []simnet.Delivery {
		m, err := frame.Decode(raw)
		if err == nil && m.Ack != nil && time.Since(from) < d {
			return nil
		}
		return simnet.Pass(raw)
	}
}

// ackedManyTimes repeats the first frames that say only that something arrived.
func ackedManyTimes() simnet.Filter {
	return func(raw []byte) []simnet.Delivery {
		m, err := frame.Decode(raw)
		if err != nil || m.GetAckFrame() == nil {
			return simnet.Pass(raw)
		}
		var all []simnet.Delivery
		for range 300 {
			all = append(all, simnet.Delivery{Frame: bytes.Clone(raw)})
		}
		return all
	}
}

// lastLost drops the last segment of each message the first time.
func lastLost() simnet.Filter {
	seen := make(map[uint32]bool)
	return data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
		d := m.GetData()
		if d.GetSegmentIndex()+1 == d.GetSegmentCount() && !seen[d.GetSeq()] {
			seen[d.GetSeq()] = true
			return nil
		}
		return simnet.Pass(raw)
	})
}

// C-035: a request and its reply of 300 KiB arrive once and whole, whatever happens to
// frames; what is sent again is the same, and what waits for an ack is bounded.
func TestC035LostRepeatedReordered(t *testing.T) {
	for _, c := range []struct {
		name   string
		filter func() simnet.Filter
		resent bool // something must be sent again
	}{
		{"EveryFifthDropped", dropEveryFifthOnce, true},
		{"EachThreeTimes", func() simnet.Filter { return threeTimes }, false},
		{"ReversedByEight", reversedByEight, false},
		{"AcksLostForTwoSeconds", func() simnet.Filter { return acksLostFor(2 * time.Second) }, true},
		{"SameAckManyTimes", ackedManyTimes, false},
		{"LastSegmentLost", lastLost, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var forth, back ledger
				l := newLine(t, frame.Reliable,
					path(simnet.Chain(forth.filter, c.filter())), path(simnet.Chain(back.filter, c.filter())))
				request := patterned(300 << 10)
				served := make(chan int, 1)
				go func() { // answers each request with itself, reversed
					n := 0
					defer func() { served <- n }()
					for {
						msg, err := l.b.Read(context.Background())
						if err != nil {
							return
						}
						n++
						if l.b.Write(context.Background(), reversed(msg)) != nil {
							return
						}
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if err := l.a.Write(ctx, request); err != nil {
					t.Fatal(err)
				}
				reply, err := l.a.Read(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(reply, reversed(request)) {
					t.Errorf("the reply, of %d bytes, is another one", len(reply))
				}
				time.Sleep(10 * time.Second) // what is left of acks
				for _, p := range []*party{l.a, l.b} {
					if c := p.Info().Cursors; c.Sent != c.Acked || c.Sent == 0 {
						t.Errorf("%s: %v", p.name, c)
					}
				}
				if len(forth.changed)+len(back.changed) > 0 {
					t.Errorf("sent again as others: %v, %v", forth.changed, back.changed)
				}
				if c.resent && (forth.again == 0 || back.again == 0) {
					t.Errorf("sent again: %d and %d", forth.again, back.again)
				}
				_ = l.a.Close()
				if n := <-served; n != 1 {
					t.Errorf("the request was executed %d times", n)
				}
			})
		})
	}
}

// C-035, to its end: while acks are lost for good, a sender keeps its bounds, and says
// so in the end.
func TestC035NoAcksAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Reliable, path(nil), path(acksLostFor(time.Hour)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for l.a.Write(ctx, make([]byte, 100_000)) == nil {
			}
		}()
		ended := false
		for !ended {
			c := l.a.Info().Cursors
			if held := c.Sent - c.Acked; held > arq.MaxSegments {
				t.Fatalf("%d segments are held", held)
			}
			select {
			case <-l.a.Done():
				ended = true
			case <-time.After(time.Second):
			}
		}
		if err := l.a.Err(); !isGaveUp(err) {
			t.Errorf("ended by %v", err)
		}
	})
}

func patterned(n int) []byte {
	msg := make([]byte, n)
	for i := range msg {
		msg[i] = byte(i) + byte(i>>8)
	}
	return msg
}

func reversed(msg []byte) []byte {
	out := make([]byte, len(msg))
	for i, c := range msg {
		out[len(msg)-1-i] = c
	}
	return out
}

// once applies change to data frame 2, the first time it is sent.
func once(change func(d *relayv1.RelayData)) simnet.Filter {
	done := false
	return data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
		if done || m.GetData().GetSeq() != 2 {
			return simnet.Pass(raw)
		}
		done = true
		d := m.GetData()
		d.Payload = bytes.Clone(d.GetPayload())
		change(d)
		out, err := frame.Append(nil, m)
		if err != nil { // an empty payload: no frame at all
			return nil
		}
		return []simnet.Delivery{{Frame: out}}
	})
}

// swapped exchanges the payloads of segments 2 and 3.
func swapped() simnet.Filter {
	var held *relayv1.RelayMessageFrame
	done := false
	return data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
		switch {
		case done || m.GetData().GetSeq() != 2 && m.GetData().GetSeq() != 3:
			return simnet.Pass(raw)
		case held == nil:
			held = m
			return nil
		}
		done = true
		a, b := held.GetData(), m.GetData()
		a.Payload, b.Payload = b.GetPayload(), a.GetPayload()
		var out []simnet.Delivery
		for _, m := range []*relayv1.RelayMessageFrame{held, m} {
			raw, err := frame.Append(nil, m)
			if err != nil {
				panic(err)
			}
			out = append(out, simnet.Delivery{Frame: raw})
		}
		return out
	})
}

var tampering = map[string]func(other *foreign) simnet.Filter{
	"BitFlipped": func(*foreign) simnet.Filter {
		return once(func(d *relayv1.RelayData) { d.Payload[len(d.Payload)/2] ^= 1 })
	},
	"TagFlipped": func(*foreign) simnet.Filter {
		return once(func(d *relayv1.RelayData) { d.Payload[len(d.Payload)-1] ^= 0x80 })
	},
	"Emptied": func(*foreign) simnet.Filter {
		return once(func(d *relayv1.RelayData) { d.Payload = nil })
	},
	"CutTo15Bytes": func(*foreign) simnet.Filter {
		return once(func(d *relayv1.RelayData) { d.Payload = d.Payload[:15] })
	},
	"Renumbered": func(*foreign) simnet.Filter {
		return once(func(d *relayv1.RelayData) { d.Seq = 3 })
	},
	"MovedInItsMessage": func(*foreign) simnet.Filter {
		return once(func(d *relayv1.RelayData) { d.SegmentIndex, d.SegmentCount = d.SegmentIndex+1, d.SegmentCount+2 })
	},
	"PayloadsSwapped": func(*foreign) simnet.Filter { return swapped() },
	"OfAnotherStream": func(other *foreign) simnet.Filter {
		return once(func(d *relayv1.RelayData) { d.Payload = other.take() })
	},
}

// A foreign keeps a record of another stream.
type foreign struct {
	mu     sync.Mutex
	record []byte
}

func (f *foreign) filter(raw []byte) []simnet.Delivery {
	return data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
		f.mu.Lock()
		defer f.mu.Unlock()
		if m.GetData().GetSeq() == 2 {
			f.record = bytes.Clone(m.GetData().GetPayload())
		}
		return simnet.Pass(raw)
	})(raw)
}

func (f *foreign) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.record)
}

// C-036, reliable profile: of a changed record nothing is processed, and the true one,
// which comes again, is. The other stream does not notice.
func TestC036ChangedRecords(t *testing.T) {
	for name, tamper := range tampering {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var other foreign
				second := newLine(t, frame.Reliable, path(other.filter), path(nil))
				second.exchange(script{1, 10, 100_000}, script{2, 10, 100})
				first := newLine(t, frame.Reliable, path(tamper(&other)), path(nil))
				first.exchange(script{3, 20, 100_000}, script{4, 20, 100})
				second.exchange(script{5, 10, 100_000}, script{6, 10, 100})
				if s := first.b.Info().Stats; name != "Emptied" && s.Unopened == 0 && s.Duplicates == 0 && s.Malformed == 0 {
					t.Errorf("nothing was tampered with: %+v", s)
				}
				if s := second.b.Info().Stats; s.Unopened != 0 {
					t.Errorf("the other stream was: %+v", s)
				}
			})
		})
	}
}

// C-036, codex profile, which has no way to have a record again: the stream is reset,
// loudly, at both ends, and nothing of the record was processed.
func TestC036ChangedRecordsCodex(t *testing.T) {
	for name, tamper := range tampering {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var other foreign
				second := newLine(t, frame.Codex, path(other.filter), path(nil))
				second.exchange(script{1, 10, 100_000}, script{2, 10, 100})
				first := newLine(t, frame.Codex, path(tamper(&other)), path(nil))
				s := script{3, 100, 100_000} // more than may wait behind a record that is no frame
				go func() { _ = s.write(context.Background(), first.a.Stream) }()
				err := s.read(t.Context(), first.b.Stream)
				if !isProtocolError(err) {
					t.Errorf("the end that was cheated: %v", err)
				}
				<-first.a.Done()
				if !isReset(first.a.Err()) {
					t.Errorf("the other end: %v", first.a.Err())
				}
				second.exchange(script{5, 10, 100_000}, script{6, 10, 100})
				third := newLine(t, frame.Codex, path(nil), path(nil))
				third.exchange(script{7, 10, 100_000}, script{8, 10, 100})
			})
		})
	}
}
