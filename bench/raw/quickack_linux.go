package raw

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// A quickAcker reads from a TCP connection and has the kernel acknowledge at once.
// The kernel forgets the wish as it likes, so it is repeated around every read.
type quickAcker struct {
	conn net.Conn
	raw  syscall.RawConn
}

func newQuickAcker(conn net.Conn) (io.Reader, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.New("quick acknowledgement needs TCP")
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	q := &quickAcker{conn, raw}
	return q, q.set()
}

func (q *quickAcker) Read(p []byte) (int, error) {
	if err := q.set(); err != nil {
		return 0, err
	}
	n, err := q.conn.Read(p)
	if err == nil {
		err = q.set()
	}
	return n, err
}

func (q *quickAcker) set() error {
	var failed error
	err := q.raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
	return errors.Join(err, failed)
}
