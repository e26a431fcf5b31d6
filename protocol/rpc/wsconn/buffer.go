package wsconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/bufpool"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

const (
	smallBuffer = 4 << 10
	// mediumBuffer holds any message that may come before initialize.
	mediumBuffer = protocol.MaxFirstMessageBytes + 1
	// largeBuffer, four times as much and so on hold a file of 1 MiB, 4 MiB and so on in
	// base64. They are sizes that bufpool.Take finds kept.
	largeBuffer = 3 << 19
	// hugeBuffer grows by less, because its memory has to be cleared, too.
	hugeBuffer = 16 * largeBuffer
)

// Small and medium buffers are kept apart from large ones, so that short messages do not hold
// large memory.
var (
	smallBuffers  = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	mediumBuffers = sync.Pool{New: func() any { return new([mediumBuffer]byte) }}
)

// intake is what the messages of one connection are read into. It charges account for
// buffers that are not small, before they are filled.
type intake struct {
	account *rpc.Account
	// expected is the size of a buffer for the latest message that was not small. The next
	// such is often as long.
	expected int
}

// readAll reads a message of at most limit bytes into a buffer that release takes
// back. The limit is not gorilla's, which closes without a reason. ctx ends the wait for
// memory.
func (in *intake) readAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
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
			if cap(buf) > smallBuffer {
				in.expected = min(bufpool.Size(len(buf)+1), int(limit)+1)
			}
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

// room is the size of a buffer for more than n bytes, up to limit and one more.
func room(n int, limit int64) int {
	if n < mediumBuffer {
		return mediumBuffer
	}
	size := largeBuffer
	for size <= n {
		if size < hugeBuffer {
			size *= 2
		}
		size *= 2
	}
	if size == largeBuffer {
		return size
	}
	return min(size, int(limit)+1)
}

// enlarge makes room, for one byte more than limit at most. If there is memory for as long
// a message as the latest, this one goes there at once, and is not copied from size to size.
func (in *intake) enlarge(ctx context.Context, buf []byte, limit int64) ([]byte, error) {
	size := room(len(buf), limit)
	if in.expected > size && !in.account.Crowded() && in.account.TryTake(int64(in.expected)) {
		size = in.expected
	} else if err := in.account.TakeMore(ctx, int64(size)); err != nil {
		return nil, err
	}
	var next []byte
	if size == mediumBuffer {
		next = mediumBuffers.Get().(*[mediumBuffer]byte)[:0]
	} else {
		next = bufpool.Take(size)
	}
	next = append(next, buf...)
	in.release(buf)
	return next, nil
}

// chargeFor is what is taken from the account for a buffer.
func chargeFor(buf []byte) int64 {
	if cap(buf) <= smallBuffer {
		return 0
	}
	return int64(cap(buf))
}

func (in *intake) release(buf []byte) {
	in.account.Give(chargeFor(buf))
	switch {
	case cap(buf) == smallBuffer:
		smallBuffers.Put((*[smallBuffer]byte)(buf[:smallBuffer]))
	case cap(buf) == mediumBuffer:
		mediumBuffers.Put((*[mediumBuffer]byte)(buf[:mediumBuffer]))
	case cap(buf) <= largeBuffer || !in.account.Crowded(): // kept, it is not counted
		bufpool.Keep(buf)
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
