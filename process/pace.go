package process

import (
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// Reading a pipe as soon as there is something in it costs a wake-up for each of the
// child's writes, which for a child that prints a lot in small pieces is several
// times the cost of the bytes. So a pipe that is busy is made large and read when
// the gatherPart of it should be full, though every maxPaceTime. What such a child prints
// arrives so much later; a quiet pipe is read at once.
const (
	gatherPart = 4
	// paceTime is the shortest wait: the system's timers know no shorter ones.
	paceTime    = time.Millisecond
	maxPaceTime = 4 * time.Millisecond
	// paceReads is how many reads it takes to tell whether a pipe is busy.
	paceReads = 8
	// paceBytes is what a busy pipe brings in paceTime.
	paceBytes = 16 << 10
	// busyPipeBytes is the size of a busy pipe, where none is asked for; what fits in it
	// in paceTime is far more than a client takes.
	busyPipeBytes = 1 << 20
	// maxLargePipes bounds the large pipes of this program. Linux counts the pipes of
	// a user together and gives out tiny ones when they come to 64 MiB.
	maxLargePipes = 16
)

// largePipes counts them.
var largePipes atomic.Int32

// pace decides when a pipe is read. It begins as that of a quiet one.
type pace struct {
	gather int           // how many bytes are waited for
	wait   time.Duration // before a read; 0 for a quiet pipe
	reads  int
	bytes  int
	since  time.Time
	more   bool // the last read has not emptied the pipe
}

// note is told of a read of n bytes and returns true when the last reads were those of a
// busy pipe.
func (p *pace) note(n int, now time.Time) (busy bool) {
	p.more = n == eventlog.ChunkBytes
	p.reads++
	p.bytes += n
	if p.reads < paceReads {
		return false
	}
	took := max(now.Sub(p.since), 1)
	p.wait = 0
	if !p.since.IsZero() && p.bytes >= int(paceBytes*took/paceTime) {
		p.wait = min(max(time.Duration(p.gather)*took/time.Duration(p.bytes), paceTime), maxPaceTime)
	}
	p.reads, p.bytes, p.since = 0, 0, now
	return p.wait > 0
}

// delay is how long to wait before the next read.
func (p *pace) delay() time.Duration {
	if p.more {
		return 0
	}
	return p.wait
}
