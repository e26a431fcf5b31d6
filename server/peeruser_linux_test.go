package server

import (
	"errors"
	"net"
	"os"
	"syscall"
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

// TestSM7ForeignUserIsReadAgain: a file that cannot be read, as while no descriptor is
// free, lets nobody in, and is read again for the next connection.
func TestSM7ForeignUserIsReadAgain(t *testing.T) {
	const uidMap, overflow = "/proc/self/uid_map", "/proc/sys/kernel/overflowuid"
	all, some := "         0          0 4294967295\n", "0 1000 1\n"
	for name, tt := range map[string]struct {
		uidMap, overflow string // what the files say once they can be read; nothing if they are not there
		fails            string // which cannot be read at first
		foreign          int
	}{
		"every user is known":            {all, "65534\n", uidMap, -1},
		"some are":                       {some, "65534\n", uidMap, 65534},
		"some are, and the number fails": {some, "1000\n", overflow, 1000},
		"without user namespaces":        {"", "65533\n", overflow, 65533},
		"without /proc":                  {"", "", overflow, 65534},
	} {
		fails, reads := true, 0
		f := &foreignUser{read: func(file string) ([]byte, error) {
			reads++
			if fails && file == tt.fails {
				return nil, &os.PathError{Op: "open", Path: file, Err: syscall.EMFILE}
			}
			text := map[string]string{uidMap: tt.uidMap, overflow: tt.overflow}[file]
			if text == "" {
				return nil, &os.PathError{Op: "open", Path: file, Err: syscall.ENOENT}
			}
			return []byte(text), nil
		}}
		users := []int{0, 1, 1000, 65533, 65534}
		for _, uid := range users {
			if err := f.check(uid); !errors.Is(err, syscall.EMFILE) {
				t.Errorf("%s: user %d while a file cannot be read: %v", name, uid, err)
			}
		}
		fails = false
		for _, uid := range users {
			if err := f.check(uid); (err != nil) != (uid == tt.foreign) {
				t.Errorf("%s: user %d: %v", name, uid, err)
			}
		}
		before := reads
		if err := f.check(1); err != nil || tt.uidMap != "" && reads != before {
			t.Errorf("%s: %v, %d reads for one that is known", name, err, reads-before)
		}
	}
	if err := foreign.check(os.Geteuid()); err != nil {
		t.Errorf("this user: %v", err)
	}
}
