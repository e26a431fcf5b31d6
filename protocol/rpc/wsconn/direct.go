package wsconn

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// maxDirect bounds a frame that TryWrite writes itself. Longer messages cost more to
// copy than a goroutine does to wake, which then writes beside what else there is to do.
const maxDirect = 16 << 10

// maxHead is the length of the longest head that such a frame has.
const maxHead = 4

var frames = sync.Pool{New: func() any { return new([maxDirect]byte) }}

// TryWrite implements rpc.TryWriter. It writes frames of the server's end that are not
// long, to connections that are the system's: those of TLS are not.
func (c *Conn) TryWrite(msg []byte) (finish func() error, err error) {
	whole := func() error { return c.Write(context.Background(), msg) }
	if c.raw == nil || len(msg) > maxDirect-maxHead {
		return whole, nil
	}
	select {
	case c.writing <- struct{}{}:
	default:
		return whole, nil
	}
	if c.faulted.Load() || c.closing.Load() { // Write knows what to say
		<-c.writing
		return whole, nil
	}
	buf := frames.Get().(*[maxDirect]byte)
	frame := append(appendHead(buf[:0], c.kind, len(msg)), msg...)
	n, err := tryWrite(c.raw, frame)
	if err != nil || n == len(frame) {
		frames.Put(buf)
		c.written()
		return nil, c.writeError(context.Background(), err)
	}
	return func() error {
		var deadline time.Time // a control frame may have left another
		if c.cfg.WriteTimeout > 0 {
			deadline = time.Now().Add(c.cfg.WriteTimeout)
		}
		_ = c.ws.NetConn().SetWriteDeadline(deadline) // fails on a closed connection only
		_, err := c.ws.NetConn().Write(frame[n:])
		frames.Put(buf)
		c.written()
		return c.writeError(context.Background(), err)
	}, nil
}

// appendHead appends the head of an unmasked frame that is a whole message.
func appendHead(dst []byte, kind, size int) []byte {
	dst = append(dst, 0x80|byte(kind))
	if size < 126 {
		return append(dst, byte(size))
	}
	return binary.BigEndian.AppendUint16(append(dst, 126), uint16(size))
}

// tryWrite writes what a connection, which does not block, takes of p at once.
func tryWrite(raw syscall.RawConn, p []byte) (n int, err error) {
	// Not raw.Write, which heeds the deadline that a control frame has left.
	ctlErr := raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Write(int(fd), p); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	if ctlErr != nil {
		return 0, errors.Join(rpc.ErrClosed, ctlErr)
	}
	if errors.Is(err, syscall.EAGAIN) {
		err = nil
	}
	return max(n, 0), err
}
