package natstest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// A link passes connections on from a port of its own to a target, until it is cut.
type link struct {
	listener net.Listener
	life     context.Context // ends with the test
	tasks    sync.WaitGroup

	mu     sync.Mutex
	target string
	cut    bool
	conns  map[net.Conn]bool
}

// newLink listens; it ends with the test.
func newLink(t testing.TB) *link {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	l := &link{listener: listener, life: life, conns: map[net.Conn]bool{}}
	l.tasks.Go(l.accept)
	t.Cleanup(func() {
		end()
		listener.Close()
		l.setCut(true)
		l.tasks.Wait()
	})
	return l
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) setTarget(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = address
}

// setCut ends the connections there are and refuses new ones, or no longer does.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for c := range l.conns {
			c.Close()
		}
	}
}

func (l *link) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.tasks.Go(func() { l.pass(from) })
	}
}

// add keeps a connection for setCut, unless the link is cut.
func (l *link) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return false
	}
	l.conns[c] = true
	return true
}

func (l *link) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *link) pass(from net.Conn) {
	defer from.Close()
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	if target == "" || !l.add(from) {
		return
	}
	defer l.remove(from)
	to, err := new(net.Dialer).DialContext(l.life, "tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.add(to) {
		return
	}
	defer l.remove(to)
	var both sync.WaitGroup
	both.Go(func() { io.Copy(to, from); to.Close(); from.Close() }) //nolint:errcheck // The end of either is the end of both.
	both.Go(func() { io.Copy(from, to); to.Close(); from.Close() }) //nolint:errcheck // Likewise.
	both.Wait()
}
