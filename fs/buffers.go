package fs

import (
	"context"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/bufpool"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Contents of at most a block, but not small, are read into buffers that are used
// again once the answer is queued, which is after it has been encoded.
const (
	minPooled = 32 << 10
	maxPooled = protocol.MaxBlockBytes + 4096
)

var contents = sync.Pool{New: func() any { return new([maxPooled]byte) }}

// newContent returns an empty slice with room for at least n bytes, good until the
// request that ctx belongs to has been answered.
func newContent(ctx context.Context, n int) []byte {
	switch {
	case n < minPooled:
		return make([]byte, 0, n)
	case n > maxPooled:
		return newLargeContent(ctx, n)
	}
	buf := contents.Get().(*[maxPooled]byte)
	rpc.AfterReply(ctx, func() { contents.Put(buf) })
	return buf[:0]
}

// newLargeContent is newContent for more than a block.
func newLargeContent(ctx context.Context, n int) []byte {
	buf := bufpool.Take(bufpool.Size(n))
	rpc.AfterReply(ctx, func() { bufpool.Keep(buf) })
	return buf
}
