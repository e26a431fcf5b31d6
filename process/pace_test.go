package process

import (
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
)

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := pace{gather: busyPipeBytes / gatherPart}
	feed := func(reads, size int, apart time.Duration) (busy int) {
		for range reads {
			now = now.Add(apart)
			if p.note(size, now) {
				busy++
			}
		}
		return busy
	}
	if feed(100, 100, time.Millisecond); p.delay() != 0 {
		t.Error("a quiet pipe is delayed")
	}
	if feed(100, 60_000, time.Second); p.delay() != 0 {
		t.Error("a pipe with large pieces and long pauses is delayed")
	}
	if busy := feed(3*paceReads, 8192, 10*time.Microsecond); busy != 3 || p.delay() != paceTime {
		t.Errorf("a busy pipe was busy %d times and is delayed by %v", busy, p.delay())
	}
	if feed(2*paceReads, 8192, 100*time.Microsecond); p.delay() < 3*time.Millisecond || p.delay() > maxPaceTime {
		t.Errorf("a less busy pipe is delayed by %v", p.delay())
	}
	if feed(2*paceReads, 60_000, 3*time.Millisecond); p.delay() != maxPaceTime {
		t.Errorf("a barely busy pipe is delayed by %v", p.delay())
	}
	if p.note(eventlog.ChunkBytes, now); p.delay() != 0 {
		t.Error("the rest of a full pipe is delayed")
	}
	if feed(2*paceReads, 200, paceTime); p.delay() != 0 {
		t.Error("a pipe that is quiet again is delayed")
	}
}
