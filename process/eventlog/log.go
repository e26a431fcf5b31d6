package eventlog

import (
	"errors"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// ErrLogClosed is returned by Append after a KindClosed event.
var ErrLogClosed = errors.New("append to a log that has its last event")

// Retention bounds the output that a Log keeps in memory: the newest chunks that are
// within both. Zero values mean those of protocol/limits.go.
type Retention struct {
	Bytes  int
	Chunks int
}

func (r Retention) withDefaults() Retention {
	if r.Bytes <= 0 {
		r.Bytes = protocol.MaxRetainedBytes
	}
	if r.Chunks <= 0 {
		r.Chunks = protocol.MaxRetainedChunks
	}
	return r
}

// Page is what Log.Read found.
type Page struct {
	Events []Event
	// Next is the number that the next event will have.
	Next uint64
	// Exit is that of the KindExited event, nil before there is one, whether or not
	// it is among Events.
	Exit *Exit
	// Closed is true once there is a KindClosed event.
	Closed bool
}

// A Log is the events of one command in memory. With a Recorder, and once it is described,
// they are written as well: output a few milliseconds later, so that nobody waits for it,
// and an exit, with all output before it, before Read returns it.
type Log struct {
	rec *Recorder // nil for none
	// order holds a token: the goroutine that has it appends. It is held while an exit is
	// written.
	order chan struct{}

	mu      sync.Mutex
	last    uint64 // number of the newest event
	output  ring
	exited  *Event
	closed  *Event
	hidden  bool // the exit is not written yet: nobody is told
	forgone bool // Close was called
	ended   time.Time

	number  int64  // 0 before the beginning is written
	info    Info   // what it is of, once known is set
	known   bool   // it is described to a Recorder
	record  bool   // what is appended is written
	taken   uint64 // number of the newest event that the Recorder has taken, or tried to
	written uint64 // of the newest one that is written
	full    bool   // there was no room: the Recorder tries again
	told    bool   // its end was passed on
	printed int64  // bytes of all output
	waits   []chan struct{}
}

// NewLog returns an empty log. Its events are written once it is described, if there is a
// Recorder.
func NewLog(rec *Recorder, limit Retention) *Log {
	l := &Log{rec: rec, output: ring{limit: limit.withDefaults()}, order: make(chan struct{}, 1)}
	l.order <- struct{}{}
	return l
}

// Describe says what a log is of, before its first event.
func (l *Log) Describe(info Info) {
	if l.rec == nil {
		return
	}
	l.mu.Lock()
	l.info, l.known, l.record = info, true, true
	l.mu.Unlock()
	l.rec.Mark(l, false)
}

// Number returns the number of a log whose beginning is written, else 0.
func (l *Log) Number() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// Append adds an event and returns its number: 1 for the first, then one more each. It
// takes over e.Data, which the caller leaves alone from then on. Output may evict older
// output; exit and close are kept for good.
func (l *Log) Append(e Event) (uint64, error) {
	<-l.order
	defer func() { l.order <- struct{}{} }()
	l.mu.Lock()
	if l.closed != nil {
		l.mu.Unlock()
		return 0, ErrLogClosed
	}
	l.last++
	e.Seq = l.last
	var written chan struct{}
	switch e.Kind {
	case KindExited:
		l.exited, l.ended = &e, time.Now()
		if l.record && !l.rec.Shared() { // written first: once it is seen, somebody may be told
			written, l.hidden = make(chan struct{}), true
			l.waits = append(l.waits, written)
		}
	case KindClosed:
		l.closed = &e
		if !l.record {
			l.tell(time.Now())
		}
	case KindOutput:
		e.lend()
		l.output.add(e) // a process that prints faster than can be written costs no more than what is kept
		l.printed += int64(len(e.Data))
	}
	due := l.record && (!l.full || written != nil)
	l.mu.Unlock()
	if !due {
		return e.Seq, nil
	}
	marked := l.rec.Mark(l, written != nil)
	if written != nil {
		if marked {
			<-written
		}
		l.mu.Lock()
		l.hidden = false
		l.mu.Unlock()
	}
	return e.Seq, nil
}

// Read appends to dst the retained events with numbers above after, in order. It stops
// before a chunk that would take the bytes of output over maxBytes, except that the first
// chunk is always included; a negative maxBytes is no bound. The Page is one state of the
// log. Its events are released by the caller.
func (l *Log) Read(dst []Event, after uint64, maxBytes int) (Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := Page{Events: dst, Next: l.last + 1, Closed: l.closed != nil}
	exitDue := l.exited != nil && !l.hidden
	if exitDue {
		page.Exit = l.exited.Exit
		exitDue = l.exited.Seq > after
	} else if l.exited != nil {
		page.Next = l.exited.Seq // nothing is appended meanwhile
	}
	taken := 0
	for i, e := range l.output.after(after) {
		if exitDue && l.exited.Seq < e.Seq {
			page.Events, exitDue = append(page.Events, *l.exited), false
		}
		if maxBytes >= 0 && i > 0 && taken+len(e.Data) > maxBytes {
			return page, nil
		}
		taken += len(e.Data)
		e.hold()
		page.Events = append(page.Events, e)
	}
	if exitDue {
		page.Events = append(page.Events, *l.exited)
	}
	if l.closed != nil && l.closed.Seq > after {
		page.Events = append(page.Events, *l.closed)
	}
	return page, nil
}

// Close releases the memory of the output, once it is written. Nothing is called after.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgone = true
	l.drop()
	return nil
}

// drop is called with mu held. It drops what nobody reads or writes any more, and what
// there is no room for once nobody reads it.
func (l *Log) drop() {
	if l.forgone && (!l.record || l.full || l.written == l.last) {
		l.output.drop()
	}
}

// Take implements Source.
func (l *Log) Take() (c Change, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.record || l.number != 0 && l.written == l.last {
		return Change{}, false
	}
	c = Change{Log: l.number, At: time.Now(), Ended: l.closed != nil, Bytes: int64(l.output.bytes), Printed: l.printed}
	if l.number == 0 {
		info := l.info
		c.Info = &info
	}
	if kept := l.output.after(0); len(kept) > 0 {
		c.First = kept[0].Seq
	}
	if c.Ended && l.exited != nil {
		c.At = l.ended
	}
	for _, e := range l.output.after(l.written) {
		e.hold() // until it is written
		c.Events = append(c.Events, e)
	}
	for _, e := range []*Event{l.exited, l.closed} {
		if e != nil && e.Seq > l.written {
			c.Events = append(c.Events, *e)
		}
	}
	l.taken = l.last
	return c, true
}

// Wrote implements Source. While there is no room for the change it is tried again, with
// what came meanwhile: output that is older than what the log keeps is left out. After
// another error nothing is written any more. The command goes on.
func (l *Log) Wrote(c *Change, err error) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range c.Events {
		c.Events[i].Release()
	}
	l.full = errors.Is(err, ErrFull) && l.rec.mayRetry()
	switch {
	case err == nil:
		l.number, l.written = c.Log, l.taken
	case !l.full:
		l.record = false
	}
	// The reader of an exit is not held up by a disk without room. An exit that is newer than
	// the change waits for the next.
	if l.exited == nil || l.taken >= l.exited.Seq || !l.record {
		for _, done := range l.waits {
			close(done)
		}
		l.waits = nil
	}
	if l.closed != nil && (c.Ended && !l.full || !l.record) {
		l.tell(c.At)
	}
	l.drop()
	return l.full
}

// tell passes on that the log has ended, if it is described. It is called with mu held.
func (l *Log) tell(at time.Time) {
	if !l.known || l.told {
		return
	}
	l.told = true
	rec := Record{Log: l.number, Info: l.info, Ended: true, At: at, Last: l.last, Bytes: int64(l.output.bytes), Printed: l.printed}
	if l.exited != nil {
		rec.Exit, rec.At = l.exited.Exit, l.ended
	}
	l.rec.Tell(rec)
}
