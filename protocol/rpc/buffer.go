package rpc

import (
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/bufpool"
)

// Short messages have buffers of their own, so that they do not hold large memory. Whole
// files are encoded into memory from bufpool.Take, which is not fresh each time.
const (
	maxSmallBuffer = 256 << 10
	maxLargeBuffer = 2 * protocol.MaxMessageBytes
)

var smallBuffers = sync.Pool{New: func() any { return new(buffer) }}

// buffer is an encoded message on its way out.
type buffer struct {
	b      []byte
	lane   lane
	weight int64
	held   int64 // of the account; given back when the message has been written
}

// footprint is the memory that a queued message takes.
func (b *buffer) footprint() int64 {
	if cap(b.b) > maxSmallBuffer {
		return int64(cap(b.b))
	}
	return int64(len(b.b))
}

// trim returns a buffer with the message whose memory is no larger than it has to be: a
// reader that is slow lets many short messages wait.
func (b *buffer) trim() *buffer {
	if cap(b.b) > maxSmallBuffer || cap(b.b) <= 2*len(b.b)+1024 {
		return b
	}
	short := &buffer{b: append(make([]byte, 0, len(b.b)), b.b...), lane: b.lane, weight: b.weight, held: b.held}
	b.recycle()
	return short
}

// takeBuffer returns an empty buffer for a message with about hint bytes of large members.
func takeBuffer(hint int) *buffer {
	size := hint + 1024
	if size <= maxSmallBuffer {
		return smallBuffers.Get().(*buffer)
	}
	return &buffer{b: bufpool.Take(bufpool.Size(size))}
}

func (b *buffer) recycle() {
	*b = buffer{b: b.b[:0]}
	switch {
	case cap(b.b) <= maxSmallBuffer:
		smallBuffers.Put(b)
	case cap(b.b) <= maxLargeBuffer:
		bufpool.Keep(b.b)
	}
}
