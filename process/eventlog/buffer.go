package eventlog

import (
	"sync"
	"sync/atomic"
)

// ChunkBytes is the most that one read takes, and so the largest chunk.
const ChunkBytes = 64 << 10

// buffers lends memory to reads. A stream that is quiet holds none, and a busy one gets
// those back that the log evicts: allocating them costs about as much as reading them.
var buffers = sync.Pool{New: func() any { return new([ChunkBytes]byte) }}

// GetBuffer returns a buffer for a chunk, which PutBuffer or ReleaseChunk returns.
func GetBuffer() *[ChunkBytes]byte { return buffers.Get().(*[ChunkBytes]byte) }

// PutBuffer returns a buffer that nobody uses any more.
func PutBuffer(b *[ChunkBytes]byte) { buffers.Put(b) }

// ReleaseChunk returns the buffer of a chunk whose only holder is the caller, who must not
// use it afterwards. A chunk that is no whole buffer is left to the garbage collector.
func ReleaseChunk(chunk []byte) {
	if cap(chunk) == ChunkBytes {
		buffers.Put((*[ChunkBytes]byte)(chunk[:ChunkBytes]))
	}
}

// loan counts the holders of a buffer. A holder that forgets to release it costs a buffer,
// which the garbage collector then frees, and nothing else.
type loan struct {
	holders atomic.Int32
}

// lend makes the caller the holder of an event's data, if that is a whole buffer and has
// no holder.
func (e *Event) lend() {
	if cap(e.Data) == ChunkBytes && e.loan == nil {
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

// Release is called once by each holder, who must not use the data afterwards.
func (e *Event) Release() {
	if e.loan != nil && e.loan.holders.Add(-1) == 0 {
		buffers.Put((*[ChunkBytes]byte)(e.Data[:ChunkBytes]))
	}
}

// Release releases the events of a page.
func (p *Page) Release() {
	for i := range p.Events {
		p.Events[i].Release()
	}
}
