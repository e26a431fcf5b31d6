package wsconn

import (
	"io"
	"sync"
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

// readAll reads a message into a buffer that release takes back.
func readAll(r io.Reader) ([]byte, error) {
	buf := smallBuffers.Get().(*[smallBuffer]byte)[:0]
	for {
		if len(buf) == cap(buf) {
			buf = enlarge(buf)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			release(buf)
			return nil, err
		}
	}
}

func enlarge(buf []byte) []byte {
	var next []byte
	if cap(buf) < largeBuffer {
		next = takeLarge()
	}
	if cap(next) <= cap(buf) {
		next = make([]byte, 0, cap(buf)*4)
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
