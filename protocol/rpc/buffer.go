package rpc

import (
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

// Buffers are kept for reuse in two sizes, so that small messages do not hold large
// memory, and whole files are not encoded into memory that is fresh each time.
const (
	maxSmallBuffer = 256 << 10
	maxLargeBuffer = 2 * protocol.MaxMessageBytes
)

var (
	smallBuffers = sync.Pool{New: func() any { return new(buffer) }}
	largeBuffers sync.Pool // of *buffer
)

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

// takeBuffer returns an empty buffer for a message with that much binary data.
func takeBuffer(binary int) *buffer {
	size := binary/3*4 + 1024
	if size <= maxSmallBuffer {
		return smallBuffers.Get().(*buffer)
	}
	b, ok := largeBuffers.Get().(*buffer)
	if !ok || cap(b.b) > 4*size { // too large a one would be held for too little
		b = new(buffer)
	}
	if cap(b.b) < size {
		b.b = make([]byte, 0, size)
	}
	return b
}

func (b *buffer) recycle() {
	*b = buffer{b: b.b[:0]}
	switch {
	case cap(b.b) <= maxSmallBuffer:
		smallBuffers.Put(b)
	case cap(b.b) <= maxLargeBuffer:
		largeBuffers.Put(b)
	}
}
