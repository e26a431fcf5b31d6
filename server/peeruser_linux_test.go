package server

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// loopback returns both ends of a TCP connection.
func loopback(t *testing.T, listen, dial string) (far, near *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", net.JoinHostPort(dial, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return c.(*net.TCPConn), accepted.(*net.TCPConn)
}

func TestSM7PeerUser(t *testing.T) {
	for _, tt := range []struct{ listen, dial string }{
		{"127.0.0.1:0", "127.0.0.1"}, {"127.0.0.2:0", "127.0.0.2"}, {"[::1]:0", "::1"}, {":0", "127.0.0.1"}, {":0", "::1"},
	} {
		far, near := loopback(t, tt.listen, tt.dial)
		id := socketID{addressOf(near.RemoteAddr().(*net.TCPAddr)), addressOf(near.LocalAddr().(*net.TCPAddr))}
		for name, find := range map[string]func(socketID) (int, error){"sock_diag": diagnose, "table": lookUp} {
			if uid, err := find(id); err != nil || uid != os.Geteuid() {
				t.Errorf("%v by %s: %d, %v", tt, name, uid, err)
			}
		}
		if err := far.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if uid, err := peerUser(near); err != nil || uid != os.Geteuid() {
			t.Errorf("%v half closed: %d, %v", tt, uid, err)
		}
	}
}

// The kernel says that a socket which nobody holds any more is root's.
func TestSM7ClosedPeerIsNobody(t *testing.T) {
	for _, reset := range []bool{false, true} {
		far, near := loopback(t, "127.0.0.1:0", "127.0.0.1")
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if reset {
			if err := far.SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		far.Close()
		if err := near.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for buf := make([]byte, 1); ; {
			if _, err := near.Read(buf); err != nil {
				break
			}
		}
		if uid, err := peerUser(near); !errors.Is(err, errNoPeer) {
			t.Errorf("reset %v: %d, %v", reset, uid, err)
		}
	}
}

func BenchmarkPeerUser(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	accepted, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer accepted.Close()
	for b.Loop() {
		if _, err := peerUser(accepted); err != nil {
			b.Fatal(err)
		}
	}
}
