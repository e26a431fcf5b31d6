package process

import (
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// archivedLog is a log in memory that an Archive writes.
type archivedLog struct {
	*MemoryLog
	archive *Archive
	number  int64
	dirty   bool // guarded by the archive's mutex

	// order holds a token: who has it appends. It is held while an exit is written.
	order chan struct{}

	mu     sync.Mutex
	info   *protocol.ProcessInfo // to be written
	output newest                // to be written; what is not kept need not be
	kept   int                   // bytes of output that the store is to have
	ends   []Event               // exit and close that are to be written
	ended  bool
	known  bool // it was described
	given  bool // it is not written any more
	waits  []chan struct{}
}

// open makes the log of a new process. It is archived from describe on.
func (a *Archive) open(limit Retention) *archivedLog {
	l := &archivedLog{MemoryLog: NewMemoryLog(limit), archive: a, output: newest{limit: limit.withDefaults()}, order: make(chan struct{}, 1)}
	l.order <- struct{}{}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	l.number = a.last
	return l
}

// describe says whose log it is, before the first event.
func (l *archivedLog) describe(info *protocol.ProcessInfo) {
	l.mu.Lock()
	l.info, l.known = info, true
	l.mu.Unlock()
	l.archive.mark(l, false)
}

// Append implements LogStore.
func (l *archivedLog) Append(e Event) (uint64, error) {
	<-l.order
	defer func() { l.order <- struct{}{} }()
	if e.Kind == KindExited {
		// Written first: once it is in memory, somebody may be told.
		done := make(chan struct{})
		e.Seq = l.next()
		if l.add(e, done) {
			<-done
		}
		return l.MemoryLog.Append(e)
	}
	e.lend()
	e.hold() // until it is written
	seq, err := l.MemoryLog.Append(e)
	if err == nil {
		e.Seq = seq
		l.add(e, nil)
	}
	return seq, err
}

// add has an event written, and done closed once it is. It returns false if it is not
// going to be.
func (l *archivedLog) add(e Event, done chan struct{}) bool {
	l.mu.Lock()
	if !l.known || l.given {
		l.mu.Unlock()
		e.giveUp()
		return false
	}
	if e.Kind == KindOutput {
		l.output.add(e) // a process that prints faster than can be written costs no more than what is kept
	} else {
		l.ends = append(l.ends, e)
		l.ended = l.ended || e.Kind == KindClosed
	}
	if done != nil {
		l.waits = append(l.waits, done)
	}
	l.mu.Unlock()
	if !l.archive.mark(l, done != nil) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.given = true // what came before may be about to be written
		return false
	}
	return true
}

// take returns what is to be written, and who waits for that; false if nothing is.
func (l *archivedLog) take() (c LogChange, waits []chan struct{}, ok bool) {
	oldest, kept := l.retained()
	l.mu.Lock()
	defer l.mu.Unlock()
	waits, l.waits = l.waits, nil
	if oldest > 0 { // else nothing was printed yet, or the log in memory is closed
		l.kept = kept
	}
	if l.info == nil && len(l.output.list()) == 0 && len(l.ends) == 0 {
		return LogChange{}, waits, false
	}
	c = LogChange{
		Log: l.number, Info: l.info, Events: append(l.output.take(), l.ends...),
		Oldest: oldest, Bytes: int64(l.kept), At: time.Now(), Ended: l.ended,
	}
	l.info, l.ends = nil, nil
	return c, waits, true
}

// giveUp ends the writing, also of what is to be written.
func (l *archivedLog) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = true
	l.output.drop()
	l.info, l.ends = nil, nil
}
