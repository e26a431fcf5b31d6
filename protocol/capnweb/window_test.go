package capnweb

import (
	"testing"
	"time"
)

// A path has a rate and a round trip; run drives a window over it, always sending as
// much as it lets.
type path struct {
	rate int // bytes per millisecond that the reader takes
	trip time.Duration
}

func (p path) run(w *window, size, messages int) (took time.Duration) {
	type sent struct {
		f    flight
		done time.Time
	}
	now := time.Unix(0, 0)
	free := now // when the reader is done with all so far
	var queue []sent
	for messages > 0 || len(queue) > 0 {
		for messages > 0 && !w.full() {
			messages--
			f := w.send(size, now)
			start := now.Add(p.trip / 2)
			if free.After(start) {
				start = free
			}
			free = start.Add(time.Duration(size) * time.Millisecond / time.Duration(p.rate))
			queue = append(queue, sent{f, free.Add(p.trip / 2)})
		}
		now = queue[0].done
		w.ack(queue[0].f, now)
		queue = queue[1:]
	}
	return now.Sub(time.Unix(0, 0))
}

func TestWindowFollowsThePath(t *testing.T) {
	for name, tt := range map[string]struct {
		path
		low, high int
		speed     float64 // of the path's, at least
	}{
		"long and fast": {path{20_000, 100 * time.Millisecond}, 2_000_000, 6_000_000, 0.8},
		"short":         {path{100_000, time.Millisecond}, 64 << 10, 1 << 20, 0.8},
		"slow":          {path{100, 20 * time.Millisecond}, 64 << 10, 256 << 10, 0.9},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWindow(0)
			const messages, size = 10_000, 16 << 10
			took := tt.run(&w, size, messages)
			if w.size < tt.low || w.size > tt.high {
				t.Errorf("window of %d bytes", w.size)
			}
			if speed := float64(messages*size) / float64(took.Milliseconds()) / float64(tt.rate); speed < tt.speed {
				t.Errorf("%.2f of what the path could carry", speed)
			}
			if w.inFlight != 0 {
				t.Errorf("%d bytes in flight at rest", w.inFlight)
			}
		})
	}
}

func TestWindowBounds(t *testing.T) {
	w := newWindow(0)
	now := time.Unix(0, 0)
	for i := range 3 {
		if w.full() {
			t.Fatalf("full after %d messages", i)
		}
		w.send(87_450, now)
	}
	if !w.full() {
		t.Error("not full after 3 messages of 87,450 bytes")
	}

	w = newWindow(0)
	now = now.Add(time.Millisecond)
	w.ack(w.send(1000, now.Add(-time.Millisecond)), now) // a short trip first
	for range 100 {
		before := w.size
		f := w.send(w.size, now)
		now = now.Add(time.Duration(w.size) * time.Second) // slower and slower
		w.ack(f, now)
		if w.size < minWindow || float64(w.size) < 0.9*float64(before)-1 {
			t.Fatalf("from %d to %d", before, w.size)
		}
	}
	if w.size != minWindow {
		t.Errorf("%d bytes", w.size)
	}

	w = newWindow(0)
	for range 100 {
		w.ack(w.send(w.size, now), now.Add(time.Microsecond))
		now = now.Add(time.Microsecond)
	}
	if w.size > maxWindow {
		t.Errorf("%d bytes", w.size)
	}

	w = newWindow(1000)
	f := w.send(1000, now)
	if !w.full() {
		t.Error("a fixed window is not full")
	}
	w.lose(f)
	w.ack(w.send(500, now), now)
	if w.size != 1000 || w.inFlight != 0 {
		t.Errorf("%+v", w)
	}
}
