package arq

import (
	"bytes"
	"testing"
	"time"
)

// A pair is two streams with nothing between them but a filter, in virtual time.
type pair struct {
	t       *testing.T
	now     time.Time
	ends    [2]*Stream
	ciphers [2]fakeCipher
	got     [2][][]byte
	// filter says what arrives when an end sends f: nothing, f, or something else.
	filter func(from int, f Frame) []Frame
	sent   [2][]Frame
	frames [2]int // sent; counted also when sent is off
	record bool
}

func newPair(t *testing.T, cfg Config) *pair {
	p := &pair{t: t, now: time.Unix(1_000_000, 0), record: true}
	p.filter = func(_ int, f Frame) []Frame { return []Frame{f} }
	for i := range p.ends {
		c := cfg
		c.Seal, c.Open = p.ciphers[i].seal, p.ciphers[i].open
		p.ends[i] = New(c, p.now)
	}
	return p
}

// exchange passes frames to and fro until there are none, without time passing.
func (p *pair) exchange() {
	p.t.Helper()
	for again := true; again; {
		again = false
		for i, s := range p.ends {
			f, ok := s.Next(p.now)
			if err := check(s, p.now, !ok); err != nil {
				p.t.Fatalf("end %d: %v", i, err)
			}
			if !ok {
				continue
			}
			again = true
			p.frames[i]++
			if p.record {
				p.sent[i] = append(p.sent[i], f)
			}
			for _, f := range p.filter(i, f) {
				p.deliver(1-i, f)
			}
		}
	}
}

// deliver gives an end a frame, and takes the messages that it completes.
func (p *pair) deliver(to int, f Frame) {
	f.Data.Payload = bytes.Clone(f.Data.Payload)
	p.ends[to].Handle(p.now, f)
	for {
		m, ok := p.ends[to].Message(p.now)
		if !ok {
			return
		}
		p.got[to] = append(p.got[to], m)
	}
}

// advance lets time pass, from deadline to deadline.
func (p *pair) advance(d time.Duration) {
	p.t.Helper()
	end := p.now.Add(d)
	for {
		p.exchange()
		next := earliest(p.ends[0].Deadline(), p.ends[1].Deadline())
		if next.IsZero() || next.After(end) {
			p.now = end
			p.exchange()
			return
		}
		p.now = next
	}
}

// send writes a message whole, with as many exchanges as it takes within d.
func (p *pair) send(from int, msg []byte, d time.Duration) {
	p.t.Helper()
	if err := p.ends[from].Write(msg); err != nil {
		p.t.Fatal(err)
	}
	for end := p.now.Add(d); !p.ends[from].Flushed() && p.now.Before(end); {
		p.advance(10 * time.Millisecond)
	}
}

// wantMessages checks what an end has received, all in all.
func (p *pair) wantMessages(at int, want ...[]byte) {
	p.t.Helper()
	if len(p.got[at]) != len(want) {
		p.t.Fatalf("end %d received %d messages, want %d (%v, %v)", at, len(p.got[at]), len(want), p.ends[0].Err(), p.ends[1].Err())
	}
	for i, m := range want {
		if !bytes.Equal(p.got[at][i], m) {
			p.t.Fatalf("end %d: message %d is another one", at, i)
		}
	}
}

// wantIdentical checks that all sendings of a segment were the same record.
func (p *pair) wantIdentical(from int) {
	p.t.Helper()
	first := map[uint32]Data{}
	for _, f := range p.sent[from] {
		if f.Kind != KindData {
			continue
		}
		d, again := first[f.Data.Seq]
		if again && (&d.Payload[0] != &f.Data.Payload[0] || len(d.Payload) != len(f.Data.Payload)) {
			p.t.Fatalf("segment %d was sent as two records", f.Data.Seq)
		}
		first[f.Data.Seq] = f.Data
	}
}
