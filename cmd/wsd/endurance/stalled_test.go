//go:build e2e && linux

package endurance

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
)

const (
	flood    = 1 << 30
	allowed  = 16_000_000 // bytes of memory that it may cost
	floodArg = "1073741824"
)

// A client that does not read while a child prints 1 GiB holds the child back. It
// costs next to nothing, hinders nobody else, and in the end gets every byte.
func TestStalledReader(t *testing.T) {
	server := start(t)
	warm(t, server)
	before := look(t, server)
	c := dial(t, server)
	if err := c.Call("process/start", raw.NewStart("flood", "head", "-c", floodArg, "/dev/zero"), nil); err != nil {
		t.Fatal(err)
	}
	written := awaitStandstill(t, server)
	if written >= flood {
		t.Errorf("the child printed all %d bytes with nobody reading", written)
	}
	stalled := look(t, server)
	t.Logf("stalled with %.1f MB written: %v, %.1f MB more than before",
		float64(written)/1e6, stalled, float64(stalled.rss-before.rss)/1e6)
	if cost := stalled.rss - before.rss; cost > allowed {
		t.Errorf("the stalled reader costs %.1f MB", float64(cost)/1e6)
	}
	warm(t, server) // another client is served meanwhile

	got, next := 0, 1
	for {
		m, err := c.Read()
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		if seq := sequence(t, m); seq != next {
			t.Fatalf("seq %d where %d belongs", seq, next)
		}
		next++
		if m.Method == "process/output" {
			got += m.DataBytes("chunk")
		}
		if m.Method == "process/closed" {
			break
		}
	}
	if got != flood {
		t.Errorf("got %d bytes of %d", got, flood)
	}
	if cost := peak(t, server) - before.rss; cost > allowed {
		t.Errorf("at its peak the server held %.1f MB more than before", float64(cost)/1e6)
	} else {
		t.Logf("at its peak the server held %.1f MB more than before", float64(cost)/1e6)
	}
}

// With nobody attached the child runs free, and the newest megabyte is kept.
func TestDetachedReader(t *testing.T) {
	server := start(t)
	warm(t, server)
	before := look(t, server)
	c, err := raw.Dial(t.Context(), server.Addr, raw.Config{})
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.Initialize("")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call("process/start", raw.NewStart("flood", "head", "-c", floodArg, "/dev/zero"), nil); err != nil {
		t.Fatal(err)
	}
	c.Close()
	eventually(t, server, "the child still prints", func(s state) bool { return s.children == 0 })
	if cost := peak(t, server) - before.rss; cost > allowed {
		t.Errorf("at its peak the server held %.1f MB more than before", float64(cost)/1e6)
	}
	c, err = raw.Dial(t.Context(), server.Addr, raw.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Initialize(session); err != nil {
		t.Fatal(err)
	}
	type result struct {
		Chunks []struct {
			Seq   int
			Chunk []byte
		}
		Closed   bool
		ExitCode *int
	}
	var read result
	kept, last := 0, 0
	for asked := 0; !read.Closed && asked < 10; asked++ {
		// The child is gone before its end is in the log, and an answer with output waits
		// for nothing more.
		read = result{}
		if err := c.Call("process/read", map[string]any{"processId": "flood", "afterSeq": last, "waitMs": 10000}, &read); err != nil {
			t.Fatal(err)
		}
		for _, chunk := range read.Chunks {
			kept += len(chunk.Chunk)
			if last > 0 && chunk.Seq != last+1 {
				t.Errorf("seq %d follows %d", chunk.Seq, last)
			}
			last = chunk.Seq
		}
	}
	if kept > 1<<20+1<<18 || kept < 1<<19 || !read.Closed || read.ExitCode == nil || *read.ExitCode != 0 {
		t.Errorf("%d bytes kept, closed %v, exit code %v", kept, read.Closed, read.ExitCode)
	}
}

// warm has the server do what it does for any command, so that what follows is not
// blamed for it.
func warm(t *testing.T, server *target.Server) {
	t.Helper()
	c := dial(t, server)
	defer c.Close()
	p := raw.NewStart("warm", "head", "-c", "4194304", "/dev/zero")
	if _, err := c.Request("process/start", p); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if m.Method == "process/closed" {
			break
		}
	}
	// A server opens its history and writes to it a moment after the first command.
	if err := c.Call("history/list", map[string]any{"afterEnd": 0, "waitMs": 60000}, nil); err != nil {
		t.Fatal(err)
	}
}

// awaitStandstill waits until the server's only child has printed nothing for half a
// second, and returns how much it has printed. There is no event for that.
func awaitStandstill(t *testing.T, server *target.Server) int {
	t.Helper()
	kids, err := server.Children()
	if err != nil || len(kids) != 1 {
		t.Fatalf("children %v, %v", kids, err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	last, same := -1, 0
	for same < 10 {
		<-tick.C
		if time.Now().After(deadline) {
			t.Fatalf("the child goes on printing, %d bytes by now", last)
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", kids[0]))
		if err != nil {
			t.Fatalf("the child: %v", err)
		}
		if now := field(t, data, "wchar:"); now == last {
			same++
		} else {
			last, same = now, 0
		}
	}
	return last
}

// peak is the most memory the server ever held.
func peak(t *testing.T, server *target.Server) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", server.PID))
	if err != nil {
		t.Fatal(err)
	}
	return int64(field(t, data, "VmHWM:")) << 10
}

// field is the number behind name in a file of /proc.
func field(t *testing.T, data []byte, name string) int {
	t.Helper()
	_, rest, ok := bytes.Cut(data, []byte(name))
	fields := bytes.Fields(rest)
	if !ok || len(fields) == 0 {
		t.Fatalf("no %s in %q", name, data)
	}
	n, err := strconv.Atoi(string(fields[0]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sequence is the seq of a notification. It is decoded by hand: there are many.
func sequence(t *testing.T, m raw.Message) int {
	t.Helper()
	head := m.Raw[:min(len(m.Raw), 160)]
	_, rest, ok := bytes.Cut(head, []byte(`"seq":`))
	end := bytes.IndexAny(rest, ",}")
	if !ok || end < 0 {
		t.Fatalf("no seq in %s", head)
	}
	n, err := strconv.Atoi(string(rest[:end]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
