package simnet

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
)

// TraceEvents is how many events a Trace keeps; older ones make room.
const TraceEvents = 4096

// A Trace keeps the frames that passed, for when a test fails. It holds what their
// fields say, not what they carry. The zero value is ready; a nil one keeps nothing.
type Trace struct {
	mu     sync.Mutex
	began  time.Time
	events []string // a ring once it is full
	total  int
}

// Note adds a line of text.
func (t *Trace) Note(format string, args ...any) {
	if t != nil {
		t.add(fmt.Sprintf(format, args...))
	}
}

// frame adds a frame that goes the way that is named.
func (t *Trace) frame(way string, d Delivery) {
	if t == nil {
		return
	}
	note := strings.TrimSpace(d.Note)
	if d.After > 0 {
		note = fmt.Sprintf("%s +%v", note, d.After)
	}
	t.add(strings.TrimSpace(way + " " + Describe(d.Frame) + " " + note))
}

func (t *Trace) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		t.began = time.Now()
	}
	line = fmt.Sprintf("%14.6f %s", time.Since(t.began).Seconds(), line)
	if len(t.events) < TraceEvents {
		t.events = append(t.events, line)
	} else {
		t.events[t.total%TraceEvents] = line
	}
	t.total++
}

// Total is how many events there have been.
func (t *Trace) Total() int {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Dump writes what is kept, the oldest first, one event a line: seconds since the
// first, way, frame.
func (t *Trace) Dump(w io.Writer) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total > len(t.events) {
		fmt.Fprintf(w, "(%d events before these)\n", t.total-len(t.events))
	}
	for i := range t.events {
		fmt.Fprintln(w, t.events[(t.total+i)%len(t.events)])
	}
}

// String is what Dump writes.
func (t *Trace) String() string {
	var b strings.Builder
	t.Dump(&b)
	return b.String()
}

// Describe says what a frame is: kind, stream, fields, size, never its contents.
func Describe(message []byte) string {
	if message == nil {
		return "-"
	}
	f, err := frame.Decode(message)
	if err != nil {
		return fmt.Sprintf("undecodable %d bytes", len(message))
	}
	var b strings.Builder
	id := f.GetStreamId()
	if len(id) > 8 {
		id = id[:8]
	}
	fmt.Fprintf(&b, "%s %q %d bytes", frame.Kind(f), id, len(message))
	if d := f.GetData(); d != nil {
		fmt.Fprintf(&b, " seq=%d", d.GetSeq())
		if d.GetSegmentCount() != 1 {
			fmt.Fprintf(&b, " %d/%d", d.GetSegmentIndex(), d.GetSegmentCount())
		}
	}
	if r := f.GetResume(); r != nil {
		fmt.Fprintf(&b, " next=%d", r.GetNextSeq())
	}
	if r := f.GetReset_(); r != nil {
		fmt.Fprintf(&b, " reason=%.40q", r.GetReason())
	}
	if f.Ack != nil || f.GetAckBits() != 0 {
		fmt.Fprintf(&b, " ack=%d+%x", f.GetAck(), f.GetAckBits())
	}
	if f.Window != nil {
		fmt.Fprintf(&b, " window=%d", f.GetWindow())
	}
	if f.GetEpoch() != 0 {
		fmt.Fprintf(&b, " epoch=%d", f.GetEpoch())
	}
	if f.GetProfile() != "" {
		fmt.Fprintf(&b, " profile=%q", f.GetProfile())
	}
	return b.String()
}
