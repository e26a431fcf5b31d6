//go:build e2e && linux

package endurance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
)

// program is the wsd under test.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wsd-e2e-")
		if err == nil {
			defer os.RemoveAll(dir)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			program, err = target.WsdPath(ctx, dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "endurance:", err)
			return 1
		}
		return m.Run()
	}())
}

// start runs wsd in a directory of its own until the test ends.
func start(t *testing.T, args ...string) *target.Server {
	t.Helper()
	log := &logBuffer{}
	server, err := target.Start(context.Background(), target.Config{
		Kind: target.Wsd, Path: program, Args: append([]string{"--metrics", "--log-level", "warn"}, args...),
		Dir: t.TempDir(), Home: t.TempDir(), Log: log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("server: %v", err)
		}
		if t.Failed() {
			t.Logf("server's log ends:\n%s", log)
		}
	})
	return server
}

// dial opens a session.
func dial(t *testing.T, server *target.Server) *raw.Client {
	t.Helper()
	c, err := raw.Dial(t.Context(), server.Addr, raw.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Initialize(""); err != nil {
		t.Fatal(err)
	}
	return c
}

// A state is what a server holds, as seen from outside.
type state struct {
	descriptors, goroutines, children, threads int
	mounts                                     int // in its mount namespace
	rss                                        int64
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

// look takes the state of the server. Asking costs a connection, which is part of
// every state taken.
func look(t *testing.T, server *target.Server) state {
	t.Helper()
	var s state
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	found := goroutines.FindSubmatch(body)
	if resp.StatusCode != http.StatusOK || found == nil {
		t.Fatalf("/metrics: %s without go_goroutines", resp.Status)
	}
	s.goroutines, _ = strconv.Atoi(string(found[1]))
	kids, err := server.Children()
	if err != nil {
		t.Fatal(err)
	}
	s.children = len(kids)
	if s.descriptors, err = server.Descriptors(); err != nil {
		t.Fatal(err)
	}
	if s.threads, err = server.Threads(); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", server.PID))
	if err != nil {
		t.Fatal(err)
	}
	s.mounts = bytes.Count(mounts, []byte("\n"))
	if s.rss, err = server.RSS(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s state) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d children, %d threads, %d mounts, %.1f MB",
		s.descriptors, s.goroutines, s.children, s.threads, s.mounts, float64(s.rss)/1e6)
}

// eventually waits until ok of the server's state, and fails the test if that does not
// come true. It returns the last state.
func eventually(t *testing.T, server *target.Server, what string, ok func(state) bool) state {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		s := look(t, server)
		if ok(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: still %v", what, s)
		}
	}
}

// settled waits until the server holds no more descriptors, goroutines, children and
// mounts than before.
func settled(t *testing.T, server *target.Server, before state) state {
	t.Helper()
	return eventually(t, server, fmt.Sprintf("want no more than %v", before), func(s state) bool {
		return s.children <= before.children && s.descriptors <= before.descriptors &&
			s.goroutines <= before.goroutines && s.mounts <= before.mounts
	})
}

// A logBuffer keeps the end of what the server logs.
type logBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	if len(l.b) > 64<<10 {
		l.b = bytes.Clone(l.b[len(l.b)-16<<10:])
	}
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
