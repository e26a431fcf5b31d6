//go:build e2e && linux

package endurance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
)

const (
	spawns   = 10_000
	sessions = 10
	window   = 16
)

// Ten thousand commands, some on terminals, some that cannot be started, leave no
// process, descriptor or goroutine behind.
func TestSpawns(t *testing.T) {
	server := start(t, "--session-grace", "0s")
	warm(t, server)
	// What the first commands bring into being (pollers, pools) serves all of them.
	spawn(t, server, 200)
	before := eventually(t, server, "want no children", func(s state) bool { return s.children == 0 })
	begin := time.Now()
	for range sessions {
		spawn(t, server, spawns/sessions)
	}
	took := time.Since(begin)
	after := settled(t, server, before)
	t.Logf("%d spawns in %v, %.0f a second", spawns, took.Round(time.Millisecond), spawns/took.Seconds())
	t.Logf("before: %v", before)
	t.Logf("after:  %v", after)
	if grown := after.rss - before.rss; grown > 16<<20 {
		t.Errorf("resident memory grew by %.1f MB", float64(grown)/1e6)
	}
	if after.threads > before.threads+16 {
		t.Errorf("threads went from %d to %d", before.threads, after.threads)
	}
}

// spawn runs n commands in a session of their own and checks the end of each.
func spawn(t *testing.T, server *target.Server, n int) {
	t.Helper()
	c := dial(t, server)
	defer c.Close()
	sent, ended := 0, 0
	send := func() error {
		p := raw.NewStart(fmt.Sprintf("p%d", sent), "true")
		switch {
		case sent%10 == 7:
			p.Argv = []string{"no-such-program-anywhere"}
		case sent%20 == 3:
			p.TTY = true
		case sent%20 == 5:
			p.PipeStdin = true
		case sent%20 == 9:
			p.Argv = []string{"sh", "-c", "echo out; echo err >&2"}
		}
		sent++
		_, err := c.Request("process/start", p)
		return err
	}
	for range min(window, n) {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	exited := map[string]bool{}
	for ended < n {
		m, err := c.Read()
		if err != nil {
			t.Fatalf("after %d of %d: %v", ended, n, err)
		}
		done := false
		switch id := string(m.Text("processId")); {
		case m.Failed:
			var failure *raw.WireError
			if err := m.Decode(nil); !errors.As(err, &failure) || string(failure.Data) != `{"kind":"spawnNotFound"}` {
				t.Fatalf("refused: %s", m.Raw)
			}
			done = true
		case m.Method == "process/exited":
			var exit struct{ ExitCode int }
			if err := m.Decode(&exit); err != nil || exit.ExitCode != 0 {
				t.Errorf("%s: %v", m.Raw, err)
			}
			exited[id] = true
		case m.Method == "process/closed":
			if !exited[id] {
				t.Errorf("%s closed before it exited", id)
			}
			delete(exited, id)
			done = true
		}
		if done {
			ended++
			if sent < n {
				if err := send(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(exited) > 0 {
		t.Errorf("%d processes exited and did not close", len(exited))
	}
}

// A thousand commands that run at the same time each tell of their own end.
func TestConcurrent(t *testing.T) {
	const n = 1000
	server := start(t, "--session-grace", "0s")
	warm(t, server)
	before := look(t, server)
	c := dial(t, server)
	for i := range n {
		p := raw.NewStart(fmt.Sprintf("p%d", i), "sh", "-c", fmt.Sprintf("read line; exit %d", i%251))
		p.PipeStdin = true
		if err := c.Call("process/start", p, nil); err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
	}
	during := look(t, server)
	if during.children != n {
		t.Errorf("%d children, want %d at the same time", during.children, n)
	}
	type write struct {
		ProcessID string `json:"processId"`
		Chunk     []byte `json:"chunk"`
		WriteID   string `json:"writeId"`
	}
	for i := range n { // not waiting for the answers, so that the ends crowd together
		if _, err := c.Request("process/write", write{fmt.Sprintf("p%d", i), []byte("go\n"), "1"}); err != nil {
			t.Fatal(err)
		}
	}
	codes, closed := map[string]int{}, map[string]bool{}
	for len(closed) < n {
		m, err := c.Read()
		if err != nil {
			t.Fatalf("%d exited, %d closed: %v", len(codes), len(closed), err)
		}
		id := string(m.Text("processId"))
		switch m.Method {
		case "process/exited":
			var exit struct{ ExitCode int }
			if err := m.Decode(&exit); err != nil {
				t.Fatal(err)
			}
			if _, twice := codes[id]; twice {
				t.Errorf("%s exited twice", id)
			}
			codes[id] = exit.ExitCode
		case "process/closed":
			if _, ok := codes[id]; !ok || closed[id] {
				t.Errorf("%s closed: exited %v, closed before %v", id, ok, closed[id])
			}
			closed[id] = true
		case "":
			if m.Failed {
				t.Errorf("refused: %s", m.Raw)
			}
		}
	}
	for i := range n {
		if code := codes[fmt.Sprintf("p%d", i)]; code != i%251 {
			t.Errorf("p%d exited with %d, want %d", i, code, i%251)
		}
	}
	c.Close()
	t.Logf("during: %v", during)
	t.Logf("after:  %v", eventually(t, server, "want no children and no descriptors", func(s state) bool {
		return s.children == 0 && s.descriptors <= before.descriptors+4
	}))
}
