package arq

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// TestCostOfBulk: "a healthy bulk stream sends at most one ack frame per 16 segments and
// copies each payload once".
func TestCostOfBulk(t *testing.T) {
	const messages, size = 8, 8 << 20
	message := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for _, profile := range []Profile{Reliable, Codex} {
		p := newPair(t, Config{Profile: profile})
		p.record = false
		took := 0
		// Handed on as it is: the socket's copy is not ours.
		p.filter = func(from int, f Frame) []Frame {
			p.now = p.now.Add(10 * time.Microsecond)
			if err := p.ends[1-from].Handle(p.now, f); err != nil {
				t.Fatal(err)
			}
			for {
				m, ok := p.ends[1-from].Message(p.now)
				if !ok {
					return nil
				}
				if !bytes.Equal(m, message) {
					t.Fatal("another message")
				}
				took++
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range messages {
			p.send(0, message, time.Second)
		}
		runtime.ReadMemStats(&after)
		if took != messages {
			t.Fatalf("received %d messages", took)
		}
		segments := p.ends[0].Stats().SentData
		if acks := p.ends[1].Stats().SentAcks; acks > segments/16+messages {
			t.Errorf("profile %d: %d ack frames for %d segments", profile, acks, segments)
		}
		if s := p.ends[0].Stats(); s.Resent != 0 || s.SentAcks != 0 {
			t.Errorf("profile %d: %+v", profile, s)
		}
		// Twice the payload: once for the records that Seal makes, once to join them.
		ratio := float64(after.TotalAlloc-before.TotalAlloc) / (messages * size)
		t.Logf("profile %d: %d segments, %d acks, %.3f bytes allocated for each byte", profile, segments, p.ends[1].Stats().SentAcks, ratio)
		if ratio > 2.1 && !raceEnabled { // which allocates as well
			t.Errorf("profile %d: %.2f bytes allocated for each byte sent", profile, ratio)
		}
	}
}

// TestCostOfCalls: a message of one record is not copied on its way in, and what answers
// it carries the ack.
func TestCostOfCalls(t *testing.T) {
	for _, profile := range []Profile{Reliable, Codex} {
		p := newPair(t, Config{Profile: profile})
		var last Frame
		p.filter = func(from int, f Frame) []Frame {
			last = f
			p.ends[1-from].Handle(p.now, f)
			return nil
		}
		for range 1000 {
			for from := range 2 {
				if err := p.ends[from].Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				p.exchange()
				m, ok := p.ends[1-from].Message(p.now)
				if !ok || string(m) != "hello" {
					t.Fatalf("received %q", m)
				}
				if end := &last.Data.Payload[len(last.Data.Payload)-1]; &m[4] != end {
					t.Fatal("the message was copied")
				}
				p.now = p.now.Add(time.Millisecond)
			}
		}
		if p.frames != [2]int{1000, 1000} {
			t.Errorf("profile %d: %v frames for 1000 messages each way", profile, p.frames)
		}
	}
}

// TestIdleMemory: a stream that was busy and is idle holds no table.
func TestIdleMemory(t *testing.T) {
	p := newPair(t, Config{})
	for range 300 {
		p.send(0, []byte("hello"), time.Second)
	}
	p.advance(2 * Heartbeat)
	for i, s := range p.ends {
		if len(s.sender.queue.slots) != 0 || len(s.receiver.kept.slots) != 0 {
			t.Errorf("end %d keeps %d and %d slots", i, len(s.sender.queue.slots), len(s.receiver.kept.slots))
		}
	}
	p.send(1, []byte("again"), time.Second)
	p.wantMessages(0, []byte("again"))
}
