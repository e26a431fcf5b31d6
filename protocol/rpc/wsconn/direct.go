package wsconn

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// maxDirect bounds a frame that TryWrite writes itself. Longer messages cost more to
// copy than a goroutine does to wake, which then writes beside what else there is to do.
const maxDirect = 16 << 10

// maxHead is the length of the longest head that such a frame has.
const maxHead = 4 + maskSize

// longestHead is the length of the longest head that any frame without a mask has.
const longestHead = 10

// partSize is the length of the parts in which writeParts writes long messages.
const partSize = 256 << 10

// maskSize is the length of the key that a client's frame is masked with.
const maskSize = 4

var frames = sync.Pool{New: func() any { return new([maxDirect]byte) }}

// TryWrite implements rpc.TryWriter. It writes frames that are not long, to connections
// that are the system's: those of TLS are not.
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
	frame := appendFrame(buf[:0], c.kind, msg, c.cfg.Masked)
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

// inParts reports whether a message is written by writeParts: it is long, and an account is
// to be told of its progress.
func (c *Conn) inParts(ctx context.Context, msg []byte) bool {
	return c.progress != nil && c.cfg.Unmasked && c.cfg.WriteTimeout == 0 && len(msg) > partSize && ctx.Done() == nil &&
		!c.faulted.Load() && !c.closing.Load() // else WriteMessage knows what to say
}

// writeParts writes a message as one frame, and says after each part how far it has come.
func (c *Conn) writeParts(msg []byte) error {
	_ = c.ws.NetConn().SetWriteDeadline(time.Time{}) // a control frame may have left another; fails on a closed connection only
	head := appendHead(make([]byte, 0, longestHead), c.kind, len(msg), false)
	part := net.Buffers{head, msg[:partSize]}
	for {
		if _, err := part.WriteTo(c.ws.NetConn()); err != nil {
			return err
		}
		c.progress.Sent(min(len(msg), partSize))
		if len(msg) <= partSize {
			return nil
		}
		msg = msg[partSize:]
		part = net.Buffers{msg[:min(len(msg), partSize)]}
	}
}

// appendHead appends the head of a frame that is a whole message of size bytes.
func appendHead(dst []byte, kind, size int, masked bool) []byte {
	var mask byte
	if masked {
		mask = 0x80
	}
	dst = append(dst, 0x80|byte(kind))
	switch {
	case size < 126:
		return append(dst, mask|byte(size))
	case size <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, mask|126), uint16(size))
	default:
		return binary.BigEndian.AppendUint64(append(dst, mask|127), uint64(size))
	}
}

// appendFrame appends a frame that is a whole message.
func appendFrame(dst []byte, kind int, msg []byte, masked bool) []byte {
	dst = appendHead(dst, kind, len(msg), masked)
	if !masked {
		return append(dst, msg...)
	}
	key := rand.Uint32() // of the runtime, which no peer predicts
	dst = binary.LittleEndian.AppendUint32(dst, key)
	at := len(dst)
	dst = append(dst, msg...)
	applyMask(dst[at:], key)
	return dst
}

// applyMask masks p, or takes the mask away.
func applyMask(p []byte, key uint32) {
	wide := uint64(key)<<32 | uint64(key)
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^wide)
	}
	for i := range p {
		p[i] ^= byte(key >> (8 * (i % maskSize)))
	}
}

// tryWrite writes what a connection, which does not block, takes of p at once.
func tryWrite(raw syscall.RawConn, p []byte) (n int, err error) {
	// Not raw.Write, which heeds the deadline that a control frame has left.
	ctlErr := raw.Control(func(fd uintptr) {
		n, err = retry(writeNow, fd, p)
	})
	if ctlErr != nil {
		return 0, errors.Join(rpc.ErrClosed, ctlErr)
	}
	if errors.Is(err, syscall.EAGAIN) {
		err = nil
	}
	return max(n, 0), err
}
