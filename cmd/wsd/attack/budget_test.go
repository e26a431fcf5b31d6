//go:build attack && linux

package attack

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/fs/fileuri"
)

const (
	// budget is what the servers of these tests may hold; budgetSlack is what they may
	// have besides, their program included.
	budget      = 256 << 20
	budgetSlack = 64 << 20
)

// A client that takes as much memory as it can leaves others theirs: the server stays
// within its budget, they are served, and the memory goes back to the system.
func TestSM4OneBudgetForAll(t *testing.T) {
	for name, load := range map[string]func(a *hog){
		"expressions": (*hog).expressions, "bodies": (*hog).bodies, "listings": (*hog).listings,
		"first messages": (*hog).firstMessages, "messages": (*hog).messages, "answers": (*hog).answers, "computers": (*hog).computers,
	} {
		t.Run(name, func(t *testing.T) {
			test := func(w *world) {
				s := w.serve(nil, "--memory-budget", fmt.Sprint(budget), "--workspace", w.dir, "--store", filepath.Join(w.home, "s.db"))
				watch := s.watch()
				a := &hog{server: s}
				load(a)
				a.hangUp()
				watch.check()
			}
			if testing.Short() { // memory is the same for all users
				test(newWorld(t, os.Geteuid()))
				return
			}
			each(t, test)
		})
	}
}

// A hog is a client with many connections.
type hog struct {
	*server
	wg   sync.WaitGroup
	mine []net.Conn
}

// connect opens a connection that hangUp closes.
func (a *hog) connect() *raw.Client {
	a.w.Helper()
	c := a.raw()
	a.mine = append(a.mine, c.Conn())
	return c
}

func (a *hog) hangUp() {
	for _, c := range a.mine {
		_ = c.Close()
	}
	a.wg.Wait()
}

// expressions are 16 searches for what would compile to a gigabyte each.
func (a *hog) expressions() {
	c := a.connect()
	for i := range 16 {
		pattern := strings.Repeat("(?:a{0,1000}){0,1}", 1000)
		if i%2 == 1 {
			pattern = strings.Repeat(`\pL`, 10_000)
		}
		a.request(c, "fs/grep", map[string]any{"path": fileuri.Format(a.w.dir), "pattern": pattern})
	}
	for range 16 {
		if m, err := c.Read(); err != nil || !m.Failed {
			a.w.Errorf("an expression of a gigabyte: %.200s, %v", m.Raw, err)
		}
	}
}

func (a *hog) request(c *raw.Client, method string, params any) {
	a.w.Helper()
	if _, err := c.Request(method, params); err != nil {
		a.w.Fatal(err)
	}
}

// bodies are 64 pages of 2 MB that are 2 GB of zeros decompressed.
func (a *hog) bodies() {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	_, err := z.Write(make([]byte, 16<<20))
	if err = errors.Join(err, z.Close()); err != nil {
		a.w.Fatal(err)
	}
	bomb := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for range 128 {
			if _, err := w.Write(member.Bytes()); err != nil {
				return
			}
		}
	}))
	a.w.Cleanup(bomb.Close)
	c := a.connect()
	for i := range 64 {
		a.request(c, "http/request", map[string]any{
			"requestId": fmt.Sprint(i), "method": "GET", "url": bomb.URL, "headers": []any{},
		})
	}
	for range 8 { // the others are cut off
		if m, err := c.Read(); err != nil || !m.Failed {
			a.w.Errorf("a body of two gigabytes: %.200s, %v", m.Raw, err)
		}
	}
}

// listings are asked for on 24 connections, and the answers are not read.
func (a *hog) listings() {
	names, asked := 300_000, 16
	if testing.Short() {
		names = 10_000
	}
	dir := filepath.Join(a.w.dir, "many")
	a.w.mkdir(dir)
	model := filepath.Join(dir, "model")
	a.w.write(model, "", 0o644)
	for i := range names {
		if i%30_000 == 0 { // a file has so many links at most
			model = filepath.Join(dir, fmt.Sprint("model", i))
			a.w.write(model, "", 0o644)
		}
		if err := os.Link(model, filepath.Join(dir, fmt.Sprintf("a name of usual length %d", i))); err != nil {
			a.w.Fatal(err)
		}
	}
	for range 24 {
		c := a.connect()
		for range asked {
			a.request(c, "fs/readDirectory", map[string]any{"path": fileuri.Format(dir), "includeMetadata": true})
		}
	}
	a.linger()
}

// answers are contents of files that are not read.
func (a *hog) answers() {
	file := filepath.Join(a.w.dir, "large")
	a.w.write(file, strings.Repeat("x", 12<<20), 0o644)
	for range 16 {
		c := a.connect()
		for range 16 {
			a.request(c, "fs/readFile", map[string]any{"path": fileuri.Format(file)})
		}
	}
	a.linger()
}

// computers are clients of the computer that have it keep what they send.
func (a *hog) computers() {
	value := []byte(`["push","` + strings.Repeat("x", 1<<20) + `"]`)
	for range 8 {
		ws, resp, err := websocket.DefaultDialer.DialContext(a.w.Context(), "ws://"+a.Addr+"/ws", nil)
		if err != nil {
			a.w.Fatal(err)
		}
		_ = resp.Body.Close()
		a.mine = append(a.mine, ws.NetConn())
		a.wg.Go(func() {
			for range 64 {
				if ws.WriteMessage(websocket.TextMessage, value) != nil {
					return // the server has closed it
				}
			}
		})
	}
	a.linger()
}

// messages are long and never end; they come after initialize.
func (a *hog) messages() { a.endless(64, func() net.Conn { return a.connect().Conn() }) }

// firstMessages are such messages before it.
func (a *hog) firstMessages() {
	a.endless(64, func() net.Conn {
		c, err := raw.Dial(a.w.Context(), a.Addr, raw.Config{})
		if err != nil {
			a.w.Fatal(err)
		}
		a.mine = append(a.mine, c.Conn())
		return c.Conn()
	})
}

func (a *hog) endless(connections int, dial func() net.Conn) {
	const size = 63 << 20
	head := append([]byte{1, 0x80 | 127}, binary.BigEndian.AppendUint64(nil, size)...)
	head = append(head, 0, 0, 0, 0)
	chunk := bytes.Repeat([]byte{' '}, 256<<10)
	for range connections {
		conn := dial()
		a.wg.Go(func() {
			if _, err := conn.Write(head); err != nil {
				return
			}
			for range size/len(chunk) - 1 {
				if _, err := conn.Write(chunk); err != nil {
					return // the server has closed it, or hangUp has
				}
			}
		})
	}
	a.linger()
}

// linger gives the load the time to get as large as it becomes.
func (a *hog) linger() {
	load := 3 * time.Second
	if testing.Short() {
		load = time.Second
	}
	for began := time.Now(); time.Since(began) < load; {
		rss, err := a.RSS()
		if err != nil || rss > budget+2*budgetSlack { // check says so
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// A watch looks at a server's memory and how it serves another client, until check.
type watch struct {
	*server
	before int64
	stop   chan struct{}
	wg     sync.WaitGroup

	// Set by the goroutines.
	peak  int64
	waits []time.Duration
}

func (s *server) watch() *watch {
	s.w.Helper()
	file := filepath.Join(s.w.dir, "small")
	s.w.write(file, "small", 0o644)
	c := s.raw()
	m := &watch{server: s, stop: make(chan struct{})}
	m.before = m.rss()
	m.wg.Go(func() {
		for m.sleep(5 * time.Millisecond) {
			m.peak = max(m.peak, m.rss())
		}
	})
	m.wg.Go(func() {
		for goOn := true; goOn; goOn = m.sleep(10 * time.Millisecond) { // once at least
			began := time.Now()
			if got, err := readFile(c, file, nil); err != nil || got != "small" {
				s.w.Errorf("another client: %q, %v", got, err)
				return
			}
			m.waits = append(m.waits, time.Since(began))
		}
	})
	return m
}

func (m *watch) rss() int64 {
	rss, err := m.RSS()
	if err != nil {
		m.w.Error(err)
	}
	return rss
}

// sleep waits for d, and returns false when the watch ends.
func (m *watch) sleep(d time.Duration) bool {
	select {
	case <-m.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// check is called after the load.
func (m *watch) check() {
	m.w.Helper()
	began, back := time.Now(), m.rss()
	for ; back > m.before+budgetSlack && time.Since(began) < 30*time.Second; back = m.rss() {
		<-time.After(50 * time.Millisecond)
	}
	took := time.Since(began)
	close(m.stop)
	m.wg.Wait()
	slices.Sort(m.waits)
	if len(m.waits) == 0 {
		m.w.Fatal("the other client was not served at all")
	}
	median, worst := m.waits[len(m.waits)/2], m.waits[len(m.waits)-1]
	m.w.Logf("RSS %d MiB before, %d at most, %d after %v; another client waits %v, at most %v, %d requests",
		m.before>>20, m.peak>>20, back>>20, took.Round(time.Millisecond), median, worst, len(m.waits))
	patient, most, within, slack := time.Second, 10*time.Second, 30*time.Second, int64(2*budgetSlack) // a machine that is busy with other tests
	if !testing.Short() {
		patient, most, within, slack = 100*time.Millisecond, time.Second, 10*time.Second, budgetSlack
	}
	if m.peak > budget+slack {
		m.w.Errorf("%d MiB were in use, with a budget of %d", m.peak>>20, budget>>20)
	}
	if median > patient || worst > most {
		m.w.Errorf("another client waits %v, at most %v", median, worst)
	}
	if back > m.before+budgetSlack || took > within {
		m.w.Errorf("%d MiB are kept after %v", back>>20, took)
	}
}

// WebSockets that do not go through the handshake are closed, with a reason.
func TestSL6MuteWebSockets(t *testing.T) {
	t.Parallel()
	s := newWorld(t, os.Geteuid()).serve(nil)
	c, err := raw.Dial(t.Context(), s.Addr, raw.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if _, err = c.ReadBytes(); err == nil || !strings.Contains(err.Error(), "initialize and initialized did not arrive within 10s") {
		t.Errorf("a mute WebSocket: %v", err)
	}
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("it was closed after %v", took)
	}
}
