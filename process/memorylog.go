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
	limit Retention

	mu     sync.Mutex
	last   uint64  // number of the newest event
	chunks []Event // chunks[head:] are retained
	head   int
	bytes  int
	exited *Event
	closed *Event
}

// NewMemoryLog returns an empty log.
func NewMemoryLog(limit Retention) *MemoryLog {
	return &MemoryLog{limit: limit.withDefaults()}
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
	if l.head == len(l.chunks) {
		return 0, 0
	}
	return l.chunks[l.head].Seq, l.bytes
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
		l.chunks = append(l.chunks, e)
		l.bytes += len(e.Data)
		l.evict()
	}
	return e.Seq, nil
}

func (l *MemoryLog) evict() {
	for l.bytes > l.limit.Bytes || len(l.chunks)-l.head > l.limit.Chunks {
		l.bytes -= len(l.chunks[l.head].Data)
		l.chunks[l.head].giveUp()
		l.chunks[l.head] = Event{}
		l.head++
	}
	// Moving them only when half of the slice is free makes the cost of a move per
	// chunk constant.
	if l.head > 32 && 2*l.head > len(l.chunks) {
		n := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[n:])
		l.chunks, l.head = l.chunks[:n], 0
	}
}

// Read implements LogStore.
func (l *MemoryLog) Read(dst []Event, after uint64, maxBytes int) (Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := Page{Events: dst, Next: l.last + 1, Closed: l.closed != nil}
	if l.exited != nil {
		page.Exit = l.exited.Exit
	}
	retained := l.chunks[l.head:]
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
	for i := range l.chunks[l.head:] {
		l.chunks[l.head+i].giveUp()
	}
	l.chunks, l.head, l.bytes = nil, 0, 0
	return nil
}
