package wsconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

const (
	smallBuffer = 4 << 10
	// mediumBuffer holds any message that may come before initialize.
	mediumBuffer = protocol.MaxFirstMessageBytes + 1
	largeBuffer  = 1 << 20
	// hugeBuffer grows by less, because its memory has to be cleared, too.
	hugeBuffer = 16 << 20
)

// Buffers are kept in three sizes, so that small messages do not hold large memory
// and large ones are not copied from size to size.
var (
	smallBuffers  = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	mediumBuffers = sync.Pool{New: func() any { return new([mediumBuffer]byte) }}
	largeBuffers  sync.Pool // of *[]byte, largeBuffer bytes or more
)

// intake is what the messages of one connection are read into. It charges account for
// buffers that are not small, before they are filled.
type intake struct {
	account *rpc.Account
}

// readAll reads a message of at most limit bytes into a buffer that release takes
// back. The limit is not gorilla's, which closes without a reason. ctx ends the wait for
// memory.
func (in intake) readAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	limit = in.account.MaxMessage(limit)
	buf := smallBuffers.Get().(*[smallBuffer]byte)[:0]
	for {
		if len(buf) == cap(buf) {
			next, err := in.enlarge(ctx, buf, limit)
			if err != nil {
				in.release(buf)
				return nil, err
			}
			buf = next
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err == nil && int64(len(buf)) > limit {
			if err = in.account.CheckMessage(len(buf)); err == nil {
				err = rpc.ErrTooLarge
			}
		}
		if err != nil {
			in.release(buf)
			return nil, err
		}
	}
}

// enlarge makes room, for one byte more than limit at most.
func (in intake) enlarge(ctx context.Context, buf []byte, limit int64) ([]byte, error) {
	var size int
	switch {
	case cap(buf) < mediumBuffer:
		size = mediumBuffer
	case cap(buf) < largeBuffer:
		size = largeBuffer
	case cap(buf) < hugeBuffer:
		size = 4 * cap(buf)
	default:
		size = 2 * cap(buf)
	}
	if size > largeBuffer {
		size = min(size, int(limit)+1)
	}
	next, err := in.take(ctx, size)
	if err != nil {
		return nil, err
	}
	next = append(next, buf...)
	in.release(buf)
	return next, nil
}

// take returns a buffer with room for size bytes at least.
func (in intake) take(ctx context.Context, size int) ([]byte, error) {
	if size == mediumBuffer {
		if err := in.account.TakeMore(ctx, mediumBuffer); err != nil {
			return nil, err
		}
		return mediumBuffers.Get().(*[mediumBuffer]byte)[:0], nil
	}
	if b, ok := largeBuffers.Get().(*[]byte); ok {
		if cap(*b) >= size && cap(*b) <= 4*size && in.account.TryTake(int64(cap(*b))) {
			return (*b)[:0], nil
		}
		largeBuffers.Put(b)
	}
	if err := in.account.TakeMore(ctx, int64(size)); err != nil {
		return nil, err
	}
	return make([]byte, 0, size), nil
}

// chargeFor is what is taken from the account for a buffer.
func chargeFor(buf []byte) int64 {
	if cap(buf) <= smallBuffer {
		return 0
	}
	return int64(cap(buf))
}

func (in intake) release(buf []byte) {
	in.account.Give(chargeFor(buf))
	switch {
	case cap(buf) == smallBuffer:
		smallBuffers.Put((*[smallBuffer]byte)(buf[:smallBuffer]))
	case cap(buf) == mediumBuffer:
		mediumBuffers.Put((*[mediumBuffer]byte)(buf[:mediumBuffer]))
	case cap(buf) >= largeBuffer:
		if cap(buf) > largeBuffer && in.account.Crowded() {
			return // kept, it would not be counted
		}
		buf = buf[:0]
		largeBuffers.Put(&buf)
	}
}

const ownBuffer = 64 << 10

// ownBuffers are for messages that their reader keeps: any relay frame fits in one.
var ownBuffers = sync.Pool{New: func() any { return new([ownBuffer]byte) }}

// readOwned is readAll for a message that nobody takes back. One that fills half of a
// buffer keeps it; another one is copied, lest it hold more memory than it needs.
func readOwned(r io.Reader, limit int64) ([]byte, error) {
	shared := ownBuffers.Get().(*[ownBuffer]byte)
	buf := shared[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(4*cap(buf), int(limit)+1)), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == nil && int64(len(buf)) > limit {
			err = rpc.ErrTooLarge
		}
		switch {
		case err == nil:
		case err != io.EOF:
			ownBuffers.Put(shared)
			return nil, err
		case len(buf) >= ownBuffer/2 && cap(buf) == ownBuffer:
			return buf, nil
		default:
			kept := bytes.Clone(buf)
			ownBuffers.Put(shared)
			return kept, nil
		}
	}
}
