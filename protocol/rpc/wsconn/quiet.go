package wsconn

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

// A quiet connection reads and writes without word to Go's runtime, as calls that do not
// block may. The runtime has a thread that looks after long calls and sleeps while
// nothing runs; each call that it is told of wakes this thread, and where messages come
// one at a time that is once a message, before it is read.
type quiet struct {
	*net.TCPConn
	raw syscall.RawConn
}

// Quiet makes of a TCP connection one whose messages wake nobody but their reader, for a
// WebSocket to be made of it. Others stay as they are.
func Quiet(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn // closed, as its user will find
	}
	return &quiet{tcp, raw}
}

// QuietUpgrade is w for an upgrade that makes a WebSocket of a Quiet connection.
func QuietUpgrade(w http.ResponseWriter) http.ResponseWriter { return hijacker{w} }

type hijacker struct{ http.ResponseWriter }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		conn = Quiet(conn)
	}
	return conn, rw, err
}

func (q *quiet) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	waitErr := q.raw.Read(func(fd uintptr) bool {
		n, err = retry(readNow, fd, p)
		return !errors.Is(err, syscall.EAGAIN)
	})
	if err = q.failure("read", waitErr, err); err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// Write leaves what takes some time to copy to the runtime.
func (q *quiet) Write(p []byte) (n int, err error) {
	if len(p) > maxDirect {
		return q.TCPConn.Write(p)
	}
	waitErr := q.raw.Write(func(fd uintptr) bool {
		var some int
		some, err = retry(writeNow, fd, p[n:])
		n += max(some, 0)
		return n == len(p) || err != nil && !errors.Is(err, syscall.EAGAIN)
	})
	return n, q.failure("write", waitErr, err)
}

// failure is why a call failed, or the wait for it, as the net package has it.
func (q *quiet) failure(op string, wait, call error) error {
	if wait != nil || call == nil {
		return wait
	}
	return &net.OpError{Op: op, Net: "tcp", Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: os.NewSyscallError(op, call)}
}

// retry makes a call that a signal may interrupt.
func retry(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (n int, err error) {
	for {
		if n, err = call(int(fd), p); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
