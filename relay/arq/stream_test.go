package arq

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestLimits are the figures of the specification.
func TestLimits(t *testing.T) {
	if MaxPieces != 1093 || MaxRecord != 61456 || MaxPiece != 61440 || MaxMessage != 67108864 || MaxSegments != 256 || MaxBytes != 8388608 {
		t.Error("the sizes of the profile have changed")
	}
	s := New(Config{}, time.Unix(0, 0))
	if want := (limits{61440, 67108864, 1093, 256, 8388608, 0}); s.cfg.limits != want || s.cfg.Life != 10*time.Minute || s.cfg.GiveUp != 2*time.Minute {
		t.Errorf("default limits %+v, life %v, give up %v", s.cfg.limits, s.cfg.Life, s.cfg.GiveUp)
	}
	if s.receiver.ack() != Greeting() {
		t.Errorf("first ack %+v, greeting %+v", s.receiver.ack(), Greeting())
	}
}

// TestLongestMessage: the longest message passes a window much smaller than it is; one
// byte more is not taken.
func TestLongestMessage(t *testing.T) {
	for _, profile := range []Profile{Reliable, Codex} {
		p := newPair(t, Config{Profile: profile})
		p.record = false
		message := bytes.Repeat([]byte("wsd "), MaxMessage/4)
		if err := p.ends[0].Write(append(message, 0)); !errors.Is(err, ErrSize) {
			t.Errorf("a byte too many: %v", err)
		}
		if err := p.ends[0].Write(nil); !errors.Is(err, ErrSize) {
			t.Errorf("no byte: %v", err)
		}
		p.send(0, message, time.Minute)
		p.wantMessages(1, message)
		if profile == Reliable && p.ciphers[0].seals != MaxPieces {
			t.Errorf("%d segments", p.ciphers[0].seals)
		}
	}
}

// TestDefaultBounds: with the figures of the specification, and nobody who acknowledges.
func TestDefaultBounds(t *testing.T) {
	var cipher fakeCipher
	s := New(config(&cipher), time.Unix(0, 0))
	count := func() (n, size int) {
		for f, ok := s.Next(time.Unix(0, 0)); ok; f, ok = s.Next(time.Unix(0, 0)) {
			n, size = n+1, size+len(f.Data.Payload)
		}
		return n, size
	}
	if err := s.Write(make([]byte, 20<<20)); err != nil {
		t.Fatal(err)
	}
	if n, size := count(); n != 136 || size > MaxBytes || size+MaxRecord <= MaxBytes {
		t.Errorf("%d segments of %d bytes", n, size)
	}
	s = New(config(&fakeCipher{}), time.Unix(0, 0))
	total := 0
	for range 300 {
		if s.Writable() {
			if err := s.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		n, _ := count()
		total += n
	}
	if total != 256 || s.Writable() {
		t.Errorf("%d segments, writable %v", total, s.Writable())
	}
	// Far more than that does not come from without a socket either.
	s = New(config(&fakeCipher{}), time.Unix(0, 0))
	s.Detach(time.Unix(0, 0))
	if err := s.Write(make([]byte, 20<<20)); err != nil {
		t.Fatal(err)
	}
	if n, _ := count(); n != 0 || s.sender.next != 136 {
		t.Errorf("%d frames without a socket, %d segments queued", n, s.sender.next)
	}
}

// TestWithdraw: before the first piece is cut nothing of a message is sent; after it the
// rest is, from memory of the stream's own.
func TestWithdraw(t *testing.T) {
	for _, profile := range []Profile{Reliable, Codex} {
		cfg := Config{Profile: profile}
		cfg.limits.piece = 10
		cfg.limits.segments = 4
		p := newPair(t, cfg)
		if p.ends[0].Withdraw() {
			t.Error("nothing was withdrawn")
		}
		if err := p.ends[0].Write([]byte("never")); err != nil {
			t.Fatal(err)
		}
		if !p.ends[0].Withdraw() {
			t.Error("was not withdrawn")
		}
		p.send(0, []byte("first"), time.Second)

		long := []byte("a long message, in more than four pieces, that is cut off")
		msg := bytes.Clone(long)
		if err := p.ends[0].Write(msg); err != nil {
			t.Fatal(err)
		}
		f, _ := p.ends[0].Next(p.now)
		if p.ends[0].Withdraw() {
			t.Error("was withdrawn after its first piece")
		}
		clear(msg)
		p.deliver(1, f)
		p.advance(time.Second)
		p.send(0, []byte("last"), time.Second)
		p.wantMessages(1, []byte("first"), long, []byte("last"))
	}
}

// TestSealFails: an error of Seal ends the stream and is its error.
func TestSealFails(t *testing.T) {
	broken := errors.New("broken")
	s := New(Config{Seal: func(Data, []byte, []byte) ([]byte, error) { return nil, broken }}, time.Unix(0, 0))
	if err := s.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	f, ok := s.Next(time.Unix(0, 0))
	if !ok || f.Kind != KindReset || f.Reason != ReasonInternal || !errors.Is(s.Err(), broken) {
		t.Errorf("%+v %v, %v", f, ok, s.Err())
	}
	// Without a socket, too.
	s = New(Config{Seal: func(Data, []byte, []byte) ([]byte, error) { return nil, broken }}, time.Unix(0, 0))
	s.Detach(time.Unix(0, 0))
	s.Write([]byte("x"))
	if f, ok := s.Next(time.Unix(0, 0)); ok || !errors.Is(s.Err(), broken) {
		t.Errorf("%+v %v, %v", f, ok, s.Err())
	}
}

// TestJitter: heartbeats of streams that began together spread over 13.5 to 16.5 s, and
// each stream's over time.
func TestJitter(t *testing.T) {
	start := time.Unix(0, 0)
	lowest, highest := time.Hour, time.Duration(0)
	for seed := range uint64(200) {
		s := New(Config{Rand: rand.New(rand.NewPCG(seed, 0))}, start)
		last, now := start, start
		for range 5 {
			now = s.Deadline()
			s.Advance(now)
			f, ok := s.Next(now)
			if !ok || f.Kind != KindHeartbeat {
				t.Fatalf("%v after %v", f.Kind, now.Sub(start))
			}
			lowest, highest = min(lowest, now.Sub(last)), max(highest, now.Sub(last))
			last = now
			if err := s.Handle(now, Frame{Kind: KindHeartbeat, Ack: Greeting()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lowest < 13500*time.Millisecond || highest > 16500*time.Millisecond || lowest > 13700*time.Millisecond || highest < 16300*time.Millisecond {
		t.Errorf("heartbeats %v to %v apart", lowest, highest)
	}
}

// TestCodexMessages: one more than may wait resets the stream; taking them does not.
func TestCodexMessages(t *testing.T) {
	for _, take := range []bool{false, true} {
		var ours, theirs fakeCipher
		cfg := config(&ours)
		cfg.Profile = Codex
		now := time.Unix(0, 0)
		s := New(cfg, now)
		for i := range CodexMessages + 1 {
			if s.Err() != nil {
				t.Fatalf("ended before message %d: %v", i, s.Err())
			}
			record, _ := theirs.seal(Data{Seq: uint32(i), Count: 1}, nil, []byte("\x00\x00\x00\x01x"))
			s.Handle(now, Frame{Kind: KindData, Data: Data{Seq: uint32(i), Count: 1, Payload: record}})
			if take {
				s.Message(now)
			}
		}
		if _, failed := errors.AsType[*ProtocolError](s.Err()); failed == take {
			t.Errorf("take %v: %v", take, s.Err())
		}
		for s.Waiting() > 0 { // none is lost
			s.Message(now)
		}
	}
}

// TestCodexBounds: what is kept ahead of a gap is bounded by its bytes, and a frame that
// is not segment 0 of 1 is dropped without harm.
func TestCodexBounds(t *testing.T) {
	var ours, theirs fakeCipher
	cfg := config(&ours)
	cfg.Profile = Codex
	now := time.Unix(0, 0)
	s := New(cfg, now)
	theirs.sealed = 1
	for seq := uint32(1); ; seq++ {
		record, _ := theirs.seal(Data{Seq: seq, Count: 1}, nil, make([]byte, MaxPiece))
		s.Handle(now, Frame{Kind: KindData, Data: Data{Seq: seq, Count: 2, Payload: record}})
		s.Handle(now, Frame{Kind: KindData, Data: Data{Seq: seq, Index: 1, Count: 1, Payload: record}})
		s.Handle(now, Frame{Kind: KindData, Data: Data{Seq: seq, Count: 1, Payload: record}})
		if err := check(s, now, false); err != nil {
			t.Fatal(err)
		}
		if s.Err() != nil {
			if seq != CodexBytes/MaxRecord+1 {
				t.Errorf("record %d: %v", seq, s.Err())
			}
			break
		}
	}
	if s.Stats().Malformed == 0 {
		t.Error("segment 0 of 2 was taken")
	}
}

// TestErrors: what people read says what they need.
func TestErrors(t *testing.T) {
	c := Cursors{Sent: 41, Acked: 37, Credit: 290, Received: 12}
	for _, e := range []struct {
		err  error
		want []string
	}{
		{&GiveUpError{For: "progress", After: time.Minute, Cursors: c}, []string{"progress", "1m0s", "41", "37", "290", "12"}},
		{&ProtocolError{Problem: "nonsense", Cursors: c}, []string{"nonsense", "41", "12"}},
		{&ResetError{Reason: "a\nb"}, []string{`"a\nb"`}},
	} {
		for _, want := range e.want {
			if !strings.Contains(e.err.Error(), want) {
				t.Errorf("%q lacks %q", e.err, want)
			}
		}
	}
}

// TestKinds: nothing that prints a frame or a phase panics.
func TestKinds(t *testing.T) {
	for k := range Kind(math.MaxUint8) {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
	for p := open; p <= ended; p++ {
		if fmt.Sprint(p) == "" {
			t.Errorf("phase %d has no name", p)
		}
	}
}

// TestEndIsTheEnd: after its end a stream does nothing, whatever is called.
func TestEndIsTheEnd(t *testing.T) {
	p := newPair(t, Config{})
	if err := p.ends[0].Write([]byte("unsent")); err != nil {
		t.Fatal(err)
	}
	p.ends[0].Reset("closed")
	p.ends[0].Reset("closed again")
	p.exchange()
	if len(p.sent[0]) != 1 || p.sent[0][0].Reason != "closed" {
		t.Errorf("sent %+v", p.sent[0])
	}
	for i, s := range p.ends {
		err := s.Err()
		s.Attach(p.now)
		s.Advance(p.now.Add(time.Hour))
		s.Detach(p.now)
		s.Attach(p.now)
		if f, ok := s.Next(p.now); ok {
			t.Errorf("end %d sends %v", i, f.Kind)
		}
		if s.Write([]byte("x")) != err || s.Writable() || s.Err() != err || !s.Deadline().IsZero() || s.Silent() {
			t.Errorf("end %d is not quite ended: %v", i, s.Err())
		}
	}
}

// TestBlockedSocket: while the socket takes nothing, timers go off, and neither double
// nor pile up what is sent then.
func TestBlockedSocket(t *testing.T) {
	p := newPair(t, Config{})
	if err := p.ends[0].Write([]byte("one")); err != nil {
		t.Fatal(err)
	}
	p.ends[0].Next(p.now) // lost
	for range 40 {        // within the peer's silence
		p.now = p.now.Add(time.Second)
		p.ends[0].Advance(p.now)
		if err := check(p.ends[0], p.now, false); err != nil {
			t.Fatal(err)
		}
	}
	if s := p.ends[0].Stats(); s.Timeouts != 1 {
		t.Errorf("%d timeouts of one segment", s.Timeouts)
	}
	f, ok := p.ends[0].Next(p.now)
	if !ok || f.Kind != KindData {
		t.Fatalf("%+v", f)
	}
	p.deliver(1, f)
	if f, ok = p.ends[0].Next(p.now); ok && f.Kind == KindData {
		t.Errorf("sent twice: %+v", f)
	}
	p.wantMessages(1, []byte("one"))
}
