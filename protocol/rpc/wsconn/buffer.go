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
		next = make([]byte, 0, min(cap(buf)*4, int(limit)+1))
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

// own makes a message of readAll the reader's for good: a small one is copied, so that
// it holds no more memory than it needs, a large one is not taken back.
func own(msg []byte) []byte {
	if cap(msg) != smallBuffer && cap(msg) < 2*len(msg) {
		return msg
	}
	kept := bytes.Clone(msg)
	release(msg)
	return kept
}
