package process

import (
	"sort"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

// Retention bounds the output that a log keeps: the newest chunks that are within
// both. Zero values mean those of protocol/limits.go.
type Retention struct {
	Bytes  int
	Chunks int
}

// MemoryLog is a LogStore in memory.
type MemoryLog struct {
	mu     sync.Mutex
	last   uint64 // number of the newest event
	output newest
	exited *Event
	closed *Event
}

// NewMemoryLog returns an empty log.
func NewMemoryLog(limit Retention) *MemoryLog {
	return &MemoryLog{output: newest{limit: limit.withDefaults()}}
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

// next is the number that the next event will have.
func (l *MemoryLog) next() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last + 1
}

// retained returns the number of the oldest output that is retained, 0 if none is, and how
// much there is.
func (l *MemoryLog) retained() (oldest uint64, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.output.list()
	if len(list) == 0 {
		return 0, 0
	}
	return list[0].Seq, l.output.bytes
}

// Append implements LogStore.
func (l *MemoryLog) Append(e Event) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return 0, ErrLogClosed
	}
	l.last++
	e.Seq = l.last
	switch e.Kind {
	case KindExited:
		l.exited = &e
	case KindClosed:
		l.closed = &e
	case KindOutput:
		e.lend()
		l.output.add(e)
	}
	return e.Seq, nil
}

// Read implements LogStore.
func (l *MemoryLog) Read(dst []Event, after uint64, maxBytes int) (Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := Page{Events: dst, Next: l.last + 1, Closed: l.closed != nil}
	if l.exited != nil {
		page.Exit = l.exited.Exit
	}
	retained := l.output.list()
	from := sort.Search(len(retained), func(i int) bool { return retained[i].Seq > after })
	exitDue := l.exited != nil && l.exited.Seq > after
	taken := 0
	for i, e := range retained[from:] {
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

// Close implements LogStore.
func (l *MemoryLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.output.drop()
	return nil
}
