package wsconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
)

func TestQuietConnection(t *testing.T) {
	by := &websocket.Dialer{NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return Quiet(conn), err
	}}
	for name, cfg := range map[string]Config{"Write": {}, "TryWrite": {Unmasked: true}} {
		t.Run(name, func(t *testing.T) {
			rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
				server, client := dialBy(t, cfg, by, QuietUpgrade)
				for _, ws := range []*websocket.Conn{server.ws, client} {
					if _, is := ws.NetConn().(*quiet); !is {
						t.Fatalf("made of a %T", ws.NetConn())
					}
				}
				return server, New(client, Config{Masked: cfg.Unmasked})
			})
		})
	}
}

// tcp returns the two ends of a TCP connection, one of them quiet.
func tcp(t *testing.T) (one net.Conn, other *net.TCPConn) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	one, other = Quiet(conn), accepted.(*net.TCPConn)
	t.Cleanup(func() { one.Close(); other.Close() })
	return one, other
}

// Reading and writing fail as those of other connections do.
func TestQuietErrors(t *testing.T) {
	buf := make([]byte, 10)
	read := func(conn net.Conn) error { _, err := conn.Read(buf); return err }
	write := func(conn net.Conn) error { _, err := conn.Write(buf); return err }
	past := time.Unix(1, 0)
	for _, tt := range []struct {
		name string
		do   func(conn net.Conn, other *net.TCPConn)
		call func(net.Conn) error
		want error
	}{
		{"the other end closes", func(_ net.Conn, other *net.TCPConn) { other.Close() }, read, io.EOF},
		{"a read is late", func(conn net.Conn, _ *net.TCPConn) { _ = conn.SetReadDeadline(past) }, read, os.ErrDeadlineExceeded},
		{"a write is late", func(conn net.Conn, _ *net.TCPConn) { _ = conn.SetWriteDeadline(past) }, write, os.ErrDeadlineExceeded},
		{"a read after Close", func(conn net.Conn, _ *net.TCPConn) { conn.Close() }, read, net.ErrClosed},
		{"a write after Close", func(conn net.Conn, _ *net.TCPConn) { conn.Close() }, write, net.ErrClosed},
		{"a write after CloseWrite", func(conn net.Conn, _ *net.TCPConn) { _ = conn.(*quiet).CloseWrite() }, write, syscall.EPIPE},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, other := tcp(t)
			tt.do(conn, other)
			err := tt.call(conn)
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if _, is := errors.AsType[net.Error](err); !is && err != io.EOF {
				t.Errorf("a %T is no net.Error", err)
			}
		})
	}
}

// A read that waits ends with its deadline, and with Close.
func TestQuietReadWaits(t *testing.T) {
	conn, other := tcp(t)
	got := make(chan error, 1)
	buf := make([]byte, 10)
	read := func() { _, err := conn.Read(buf); got <- err }
	go read()
	if _, err := other.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil || buf[0] != 'x' {
		t.Errorf("%q, %v", buf[0], err)
	}
	go read()
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at its deadline: %v", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	go read()
	conn.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Writes wait for a reader who takes his time, and all that was written arrives.
func TestQuietWriteWaits(t *testing.T) {
	conn, other := tcp(t)
	piece := bytes.Repeat([]byte("0123456789"), 1500)
	const pieces = 1000 // more than the sockets hold
	wrote := make(chan error, 1)
	go func() {
		defer conn.Close()
		for range pieces {
			if n, err := conn.Write(piece); n != len(piece) || err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	buf := make([]byte, len(piece))
	for i := range pieces {
		if _, err := io.ReadFull(other, buf); err != nil || !bytes.Equal(buf, piece) {
			t.Fatalf("piece %d: %v", i, err)
		}
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// What is written before a deadline is counted.
func TestQuietWriteEndsWithItsDeadline(t *testing.T) {
	conn, other := tcp(t)
	_ = conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	piece, wrote := make([]byte, 15_000), 0
	var err error
	for err == nil {
		var n int
		n, err = conn.Write(piece)
		wrote += n
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	conn.Close()
	if n, err := io.Copy(io.Discard, other); err != nil || n != int64(wrote) {
		t.Errorf("%d bytes arrived of %d, %v", n, wrote, err)
	}
}

// What is no TCP connection stays what it is.
func TestQuietOthers(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	if Quiet(one) != one {
		t.Error("changed")
	}
}
