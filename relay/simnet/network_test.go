package simnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/net/nettest"
)

// connect returns the two ends of a connection of a fresh Network.
func connect(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	network := New(1)
	l, err := network.Host("server").Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := network.Host("client").Dial(t.Context(), "tcp", "server:80")
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a.(*Conn), b.(*Conn)
}

// The standard suite for connections, in real time.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		network := New(1)
		l, err := network.Host("server").Listen(80)
		if err != nil {
			return nil, nil, nil, err
		}
		c1, err = network.Host("client").Dial(t.Context(), "tcp", "server:80")
		if err == nil {
			c2, err = l.Accept()
		}
		return c1, c2, func() { c1.Close(); c2.Close(); l.Close() }, err
	})
}

func TestHTTPAndWebSocketInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := New(7)
		l, err := network.Host("relay").Listen(80)
		if err != nil {
			t.Fatal(err)
		}
		up := &websocket.Upgrader{}
		var echoing sync.WaitGroup // time stands still once the test has returned: wait for the end
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hello" {
				fmt.Fprintf(w, "hello %s", r.RemoteAddr)
				return
			}
			echoing.Add(1)
			defer echoing.Done()
			ws, err := up.Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer ws.Close()
			for {
				kind, msg, err := ws.ReadMessage()
				if err != nil || ws.WriteMessage(kind, msg) != nil {
					return
				}
			}
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		host := network.Host("lab")
		host.SetPath(Path{Latency: 40 * time.Millisecond})
		client := &http.Client{Transport: &http.Transport{DialContext: host.Dial}}
		resp, err := client.Get("http://relay/hello")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "hello 10.0.0.2:40001" {
			t.Errorf("%q, %v", body, err)
		}
		client.CloseIdleConnections()
		ws, resp, err := (&websocket.Dialer{NetDialContext: host.Dial}).Dial("ws://relay/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		began := time.Now()
		big := bytes.Repeat([]byte("x"), 3*BufferBytes)
		for _, msg := range [][]byte{[]byte("a"), big, []byte("b")} {
			sent := make(chan error, 1)
			go func() { sent <- ws.WriteMessage(websocket.BinaryMessage, msg) }()
			_, got, err := ws.ReadMessage()
			if err != nil || !bytes.Equal(got, msg) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took < 240*time.Millisecond || took > 2*time.Second {
			t.Errorf("three round trips of 80 ms took %v", took)
		}
		ws.Close()
		echoing.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// The same seed gives the same instants, however the program's goroutines are run.
func TestDeterministic(t *testing.T) {
	run := func(seed uint64) (events string) {
		synctest.Test(t, func(t *testing.T) {
			network := New(seed)
			l, err := network.Host("server").Listen(80)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var mu sync.Mutex
			var out strings.Builder
			began := time.Now()
			var all sync.WaitGroup
			for i := range 6 {
				host := network.Host(fmt.Sprintf("client%d", i))
				host.SetPath(Path{Latency: 10 * time.Millisecond, Jitter: 5 * time.Millisecond, Bandwidth: 1 << 20})
				a, err := host.Dial(t.Context(), "tcp", "server:80")
				if err != nil {
					t.Fatal(err)
				}
				b, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() {
					buf := make([]byte, 4096)
					for {
						n, err := b.Read(buf)
						mu.Lock()
						fmt.Fprintf(&out, "%v %s %d %v\n", time.Since(began), b.RemoteAddr(), n, err)
						mu.Unlock()
						if err != nil {
							b.Close()
							return
						}
					}
				})
				all.Go(func() {
					for range 20 {
						_, _ = a.Write(make([]byte, 1000))
					}
					a.Close()
				})
			}
			all.Wait()
			events = out.String()
		})
		return events
	}
	first := run(3)
	if n := strings.Count(first, "\n"); n < 120 {
		t.Errorf("%d events only", n)
	}
	for range 5 {
		if run(3) != first {
			t.Fatal("another run with the same seed went another way")
		}
	}
	if run(4) == first {
		t.Error("another seed makes no difference")
	}
}

func TestCutAtAnyByte(t *testing.T) {
	const total = 40
	for n := 0; n <= total; n++ {
		synctest.Test(t, func(t *testing.T) {
			a, b := connect(t)
			a.Link().CutThere(n)
			for range total / 8 {
				_, _ = a.Write(make([]byte, 8))
			}
			got, err := io.ReadAll(b)
			if len(got) != n || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("cut at %d: %d bytes, %v", n, len(got), err)
			}
			if _, err := a.Write([]byte("more")); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("write after the cut: %v", err)
			}
			if len(a.Link().From().Links()) != 0 {
				t.Error("still listed")
			}
		})
	}
}

func TestHalfDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connect(t)
		a.Link().BlockBack(true)
		if _, err := a.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		if n, err := b.Read(buf); n != 4 || err != nil {
			t.Fatalf("the open direction: %d, %v", n, err)
		}
		if _, err := b.Write([]byte("pong")); err != nil {
			t.Fatal(err)
		}
		_ = a.SetReadDeadline(time.Now().Add(time.Hour))
		if n, err := a.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the blocked direction: %d, %v", n, err)
		}
		// A writer that nobody hears stops when the buffer is full, and no sooner.
		_ = b.SetWriteDeadline(time.Now().Add(time.Minute))
		if n, err := b.Write(make([]byte, 2*BufferBytes)); n != BufferBytes-4 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d, %v", n, err)
		}
		a.Link().BlockBack(false)
		_ = a.SetReadDeadline(time.Time{})
		if n, err := io.ReadFull(a, make([]byte, BufferBytes)); err != nil {
			t.Fatalf("after the block: %d, %v", n, err)
		}
		b.Close()
		if _, err := a.Read(buf); err != io.EOF {
			t.Errorf("after close: %v", err)
		}
		if _, err := a.Write(buf); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to who is gone: %v", err)
		}
		a.Close()
	})
}

// A deadline that is set while a Read or a Write begins ends it.
func TestDeadlineWhileItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := connect(t)
		if _, err := a.Write(make([]byte, BufferBytes)); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			var both sync.WaitGroup
			for _, do := range []func([]byte) (int, error){a.Read, a.Write} {
				both.Go(func() {
					if _, err := do(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error(err)
					}
				})
			}
			_ = a.SetDeadline(time.Unix(1, 0))
			both.Wait()
			_ = a.SetDeadline(time.Time{})
		}
	})
}

func TestCloseWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connect(t)
		if err := a.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if _, err := b.Write([]byte("still")); err != nil {
			t.Fatal(err)
		}
		b.Close()
		if got, err := io.ReadAll(a); string(got) != "still" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		a.Close()
		if n := len(a.Link().From().Links()); n != 0 {
			t.Errorf("%d links left", n)
		}
	})
}

func TestDialFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := New(1)
		server, client := network.Host("server"), network.Host("client")
		dial := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			c, err := client.Dial(ctx, "tcp", "server:80")
			if err == nil {
				c.Close()
			}
			return err
		}
		if err := dial(time.Minute); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: %v", err)
		}
		l, err := server.Listen(80)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Listen(80); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listen twice: %v", err)
		}
		if err := dial(time.Minute); err != nil {
			t.Error(err)
		}
		server.Refuse(true)
		if err := dial(time.Minute); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("refused: %v", err)
		}
		server.Refuse(false)
		server.Vanish(true)
		if err := dial(time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("vanished: %v", err)
		}
		time.AfterFunc(20*time.Second, func() { server.Vanish(false) })
		if err := dial(time.Minute); err != nil {
			t.Errorf("back again: %v", err)
		}
		var dns *net.DNSError
		if _, err := client.Dial(t.Context(), "tcp", "nobody:80"); !errors.As(err, &dns) {
			t.Errorf("unknown host: %v", err)
		}
		l.Close()
		if err := dial(time.Minute); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("listener closed: %v", err)
		}
	})
}

func TestVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connect(t)
		host := a.Link().From()
		if a.Link().To().Name() != "server" || host.Name() != "client" {
			t.Error("the wrong hosts")
		}
		host.Vanish(true)
		if _, err := a.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(time.Hour, func() { host.Vanish(false) })
		if n, err := b.Read(make([]byte, 10)); n != 4 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+time.Second {
			t.Errorf("came after %v", took)
		}
		if there, back := a.Link().Bytes(); there != 4 || back != 0 {
			t.Errorf("%d and %d bytes", there, back)
		}
		if n := host.CutAll(); n != 1 {
			t.Errorf("cut %d", n)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}
