package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/server/execserver"
)

// cutter forwards TCP connections and cuts each after a random number of bytes in
// either direction, until it has cut often enough.
type cutter struct {
	listener net.Listener
	target   string
	most     int // bytes
	left     atomic.Int64

	mu   sync.Mutex
	rand *rand.Rand
	wg   sync.WaitGroup
}

func newCutter(t *testing.T, url string, seed uint64, cuts int64, most int) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: strings.TrimPrefix(url, "ws://"), most: most, rand: rand.New(rand.NewPCG(seed, 1))}
	c.left.Store(cuts)
	c.wg.Go(c.accept)
	t.Cleanup(func() { _ = l.Close(); c.wg.Wait() })
	return c
}

func (c *cutter) url() string { return "ws://" + c.listener.Addr().String() }

func (c *cutter) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.forward(conn) })
	}
}

func (c *cutter) forward(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer to.Close()
	c.mu.Lock()
	budget := int64(c.rand.IntN(c.most))
	c.mu.Unlock()
	var total atomic.Int64
	cuts := sync.OnceValue(func() bool { return c.left.Add(-1) >= 0 })
	var wg sync.WaitGroup
	pipe := func(dst, src net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := src.Read(buf)
			over := false
			if room := budget - (total.Add(int64(n)) - int64(n)); room < int64(n) && cuts() {
				n, over = int(max(room, 0)), true
			}
			if _, writeErr := dst.Write(buf[:n]); writeErr != nil || err != nil || over {
				_ = src.Close()
				_ = dst.Close()
				return
			}
		}
	}
	wg.Go(func() { pipe(to, from) })
	wg.Go(func() { pipe(from, to) })
	wg.Wait()
}

// A process prints a known sequence, and echoes another, while the connection is cut
// 250 times at random bytes. Nothing is lost, doubled or reordered.
func TestRandomCuts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	proxy := newCutter(t, serve(t, execserver.Config{}), seed, 250, 20_000)
	opts := &client.Options{Reconnect: client.Reconnect{MinDelay: time.Millisecond}}
	var c *client.Client
	for c == nil { // the first connections may be cut before they are up
		var err error
		if c, err = client.Dial(t.Context(), proxy.url(), opts); err != nil && !errors.Is(err, client.ErrTransportClosed) {
			t.Logf("dial: %v", err)
		}
	}
	defer c.Close()

	printer, err := c.Start(t.Context(), client.Command{Argv: []string{
		"sh", "-c",
		`trap 'exit 7' TERM; i=0; while :; do i=$((i+1)); echo "line $i"; [ $((i % 20)) = 0 ] && sleep 0.001; done`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	echo, err := c.Start(t.Context(), client.Command{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	cutOut := make(chan struct{})
	wg.Go(func() { checkLines(t, printer.Stdout, proxy, cutOut) })
	var sent bytes.Buffer
	wg.Go(func() {
		defer echo.Stdin.Close()
		for i := 0; ; i++ {
			select {
			case <-cutOut:
				return
			default:
			}
			text := fmt.Sprintf("%d:%s\n", i, strings.Repeat("x", i%3000))
			sent.WriteString(text)
			if _, err := echo.Stdin.Write([]byte(text)); err != nil {
				t.Errorf("write %d: %v", i, err)
				return
			}
		}
	})
	received, err := io.ReadAll(echo.Stdout)
	if err != nil {
		t.Errorf("echo: %v", err)
	}
	if !bytes.Equal(received, sent.Bytes()) {
		t.Errorf("echo: sent %d bytes, received %d, or others", sent.Len(), len(received))
	}
	if status, err := echo.Wait(t.Context()); err != nil || status.Code != 0 {
		t.Errorf("echo: %+v, %v", status, err)
	}
	if err := printer.Signal(t.Context(), "TERM"); err != nil {
		t.Error(err)
	}
	if status, err := printer.Wait(t.Context()); err != nil || status.Code != 7 {
		t.Errorf("printer: %+v, %v", status, err)
	}
	if n := proxy.left.Load(); n > 0 {
		t.Errorf("%d cuts left", n)
	}
}

// checkLines reads numbered lines to their end, and tells when the proxy has cut
// enough.
func checkLines(t *testing.T, r io.Reader, proxy *cutter, cutOut chan struct{}) {
	var rest []byte
	next := 1
	buf := make([]byte, 32<<10)
	told := false
	for {
		n, err := r.Read(buf)
		rest = append(rest, buf[:n]...)
		for {
			line, after, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			if want := fmt.Sprintf("line %d", next); string(line) != want {
				t.Errorf("got %q, want %q", line, want)
				next = -1 << 40
			}
			next++
			rest = after
		}
		if !told && (proxy.left.Load() <= 0 || err != nil || t.Failed()) {
			told = true
			close(cutOut)
		}
		if err == io.EOF {
			t.Logf("%d lines", next-1)
			return
		}
		if err != nil {
			t.Errorf("after line %d: %v", next-1, err)
			return
		}
	}
}

// Every connection ends after 150 KB at most, and the output that is missed is longer than
// that: it arrives all the same, in pieces.
func TestBacklogThroughShortConnections(t *testing.T) {
	c := dialCut(t, serve(t, execserver.Config{}), 150_000)
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "seq 1 100000; exit 7"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Error(err)
	}
	var want bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintln(&want, i+1)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes of %d, or others", len(got), want.Len())
	}
	if status, err := p.Wait(t.Context()); err != nil || status.Code != 7 {
		t.Errorf("%+v, %v", status, err)
	}
}
