package wsconn

import (
	"bytes"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

const (
	smallBuffer = 4 << 10
	largeBuffer = 1 << 20
	// hugeBuffer grows by less, because its memory has to be cleared, too.
	hugeBuffer = 16 << 20
)

// Buffers are kept in two sizes, so that small messages do not hold large memory
// and large ones are not copied from size to size.
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	largeBuffers sync.Pool // of *[]byte, largeBuffer bytes or more
)

// readAll reads a message of at most limit bytes into a buffer that release takes
// back. The limit is not gorilla's, which closes without a reason.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	buf := smallBuffers.Get().(*[smallBuffer]byte)[:0]
	for {
		if len(buf) == cap(buf) {
			buf = enlarge(buf, limit)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err == nil && int64(len(buf)) > limit {
			err = rpc.ErrTooLarge
		}
		if err != nil {
			release(buf)
			return nil, err
		}
	}
}

// enlarge makes room, for one byte more than limit at most.
func enlarge(buf []byte, limit int64) []byte {
	var next []byte
	if cap(buf) < largeBuffer {
		next = takeLarge()
	}
	if cap(next) <= cap(buf) {
		factor := 4
		if cap(buf) >= hugeBuffer {
			factor = 2
		}
		next = make([]byte, 0, min(cap(buf)*factor, int(limit)+1))
	}
	next = append(next, buf...)
	release(buf)
	return next
}

func takeLarge() []byte {
	if b, ok := largeBuffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, largeBuffer)
}

func release(buf []byte) {
	switch {
	case cap(buf) == smallBuffer:
		smallBuffers.Put((*[smallBuffer]byte)(buf[:smallBuffer]))
	case cap(buf) >= largeBuffer:
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
