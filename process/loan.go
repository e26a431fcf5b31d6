package process

import (
	"sync"
	"sync/atomic"
)

// chunkBytes is the most that one read takes, and so the largest chunk.
const chunkBytes = 64 << 10

// chunks lends buffers to reads. A stream that is quiet holds none, and a busy one
// gets those back that the log forgets: allocating them costs about as much as
// reading them.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// loan counts who holds a buffer of chunks. Who forgets to give one up costs a buffer,
// which the garbage collector then frees, and nothing else.
type loan struct {
	holders atomic.Int32
}

// lend makes the caller the holder of an event's data, if that is a whole buffer and has
// none.
func (e *Event) lend() {
	if cap(e.Data) == chunkBytes && e.loan == nil {
		e.loan = new(loan)
		e.loan.holders.Store(1)
	}
}

// hold adds a holder. The caller is one already.
func (e *Event) hold() {
	if e.loan != nil {
		e.loan.holders.Add(1)
	}
}

// giveUp is called once by each holder, who does not look at the data any more.
func (e *Event) giveUp() {
	if e.loan != nil && e.loan.holders.Add(-1) == 0 {
		chunks.Put((*[chunkBytes]byte)(e.Data[:chunkBytes]))
	}
}

// GiveUp gives a chunk of an Output back whose only holder the caller is, who does not
// look at it any more. What is no whole buffer is left to the garbage collector.
func GiveUp(chunk []byte) {
	if cap(chunk) == chunkBytes {
		chunks.Put((*[chunkBytes]byte)(chunk[:chunkBytes]))
	}
}

// giveUp gives up the events of a page.
func (p *Page) giveUp() {
	for i := range p.Events {
		p.Events[i].giveUp()
	}
}
