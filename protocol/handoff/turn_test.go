package handoff

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A Turn is handed off once, while a message is handled, and not for one of before.
func TestTurn(t *testing.T) {
	others := 0
	turn := NewTurn(func() { others++ })
	before := turn.Message()
	before.Handled()
	if before.HandOff() || !turn.Held() || others != 0 {
		t.Error("handed off after the message was handled")
	}
	m := turn.Message()
	if !m.HandOff() || m.HandOff() || turn.Held() || others != 1 {
		t.Errorf("held %v after HandOff, and %d others read", turn.Held(), others)
	}
	m.Handled()
	if turn.Held() {
		t.Error("held again")
	}
	if own := NewTurn(nil); own.Shared() || !own.Message().HandOff() || own.Held() {
		t.Error("a Turn that is not shared is not handed off")
	}
}

// One goroutine reads at a time, however handlers and others hand off.
func TestTurnIsOneGoroutines(t *testing.T) {
	const messages = 20_000
	var reading, handled, late atomic.Int64
	var hands sync.WaitGroup
	done := make(chan struct{})
	var read func()
	read = func() {
		hands.Go(func() {
			turn := NewTurn(read)
			for turn.Held() {
				if reading.Add(1) != 1 {
					t.Error("two goroutines read")
				}
				n := handled.Add(1)
				reading.Add(-1)
				if n >= messages {
					if n == messages {
						close(done)
					}
					return
				}
				m := turn.Message()
				if n%3 == 0 {
					hands.Go(func() {
						if !m.HandOff() {
							late.Add(1)
						}
					})
				}
				if n%5 == 0 {
					m.HandOff()
				}
				m.Handled()
			}
		})
	}
	read()
	<-done
	hands.Wait()
	if handled.Load() != messages || late.Load() == 0 {
		t.Errorf("%d messages were handled, %d hand-offs came late", handled.Load(), late.Load())
	}
}
