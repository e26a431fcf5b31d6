package execserver_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/server/execserver"
)

// runningIn counts the processes whose working directory is dir, zombies left out.
func runningIn(t *testing.T, dir string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && cwd == dir {
			n++
		}
	}
	return n
}

// gone waits until nothing runs in dir.
func gone(t *testing.T, dir string) {
	t.Helper()
	eventually(t, "the end of what ran in "+dir, func() bool { return runningIn(t, dir) == 0 })
}

// TestC005: terminate leaves the children running.
func TestC005(t *testing.T) {
	t.Parallel()
	script := sh("sleep 301 & sleep 302 & wait")
	url := serve(t, func(cfg *execserver.Config) { cfg.SessionGrace = 100 * time.Millisecond })
	for _, tty := range []bool{false, true} {
		c, dir := dial(t, url), privateDir(t)
		start := func() {
			c.start("p1", dir, script, object{"tty": tty})
			eventually(t, "three processes", func() bool { return runningIn(t, dir) == 3 })
		}
		start()
		began := time.Now()
		if !c.terminate("p1") {
			t.Errorf("tty=%v: the first terminate says not running", tty)
		}
		c.closed("p1")
		if took := time.Since(began); took > slack*time.Second {
			t.Errorf("tty=%v: the close took %v", tty, took)
		}
		gone(t, dir)
		if c.terminate("p1") {
			t.Errorf("tty=%v: the second terminate says running", tty)
		}
		c.drop()

		// The connection ends instead; its session's grace is over soon.
		c = dial(t, url)
		start()
		c.drop()
		gone(t, dir)
	}
}

// TestC006: a program that ignores polite signals cannot be stopped.
func TestC006(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	c.start("p1", dir, sh("trap '' TERM INT HUP; echo ready; while :; do sleep 1; done"), nil)
	c.printed("p1", "ready")
	began := time.Now()
	c.terminate("p1")
	if h := c.closed("p1"); h.exitCode == 0 {
		t.Error("exit code 0")
	}
	if took := time.Since(began); took > slack*time.Second {
		t.Errorf("the end took %v", took)
	}
	gone(t, dir)
}

// TestC007: killed by a signal, reported as success.
func TestC007(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	tests := []struct {
		script string
		tty    bool
		want   int
	}{
		{"kill -9 $$", false, 137},
		{"kill -15 $$", false, 143},
		{"exit 255", false, 255},
		{"kill -9 $$", true, 1},
		{"kill -15 $$", true, 1},
		{"exit 255", true, 255},
	}
	for i, test := range tests {
		id := fmt.Sprintf("p%d", i)
		if h := c.run(id, dir, sh(test.script), object{"tty": test.tty}); h.exitCode != test.want {
			t.Errorf("%s, tty=%v: exit code %d, want %d", test.script, test.tty, h.exitCode, test.want)
		}
	} // process/read is compared at the end
}

// TestC008: writing to a program that already left takes the server down.
func TestC008(t *testing.T) {
	t.Parallel()
	url := serve(t)
	c, dir := dial(t, url), privateDir(t)
	c.start("p1", dir, []string{"true"}, object{"pipeStdin": true})
	var requests []string
	for range 5 {
		requests = append(requests, c.send("process/write", c.writeParams("p1", make([]byte, 200<<10))))
	}
	for _, id := range requests {
		c.await(id)
	}
	if h := c.closed("p1"); h.exitCode != 0 {
		t.Errorf("p1: exit code %d", h.exitCode)
	}
	c.start("p2", dir, []string{"head", "-c", "1"}, object{"pipeStdin": true})
	c.call("process/write", c.writeParams("p2", bytes.Repeat([]byte("x"), 1<<20)))
	if h := c.closed("p2"); h.exitCode != 0 || string(h.output("")) != "x" {
		t.Errorf("p2: exit code %d, output %q", h.exitCode, h.output(""))
	}
	c.alive(url)
}

// TestC009: a tool waits for input that nobody can send.
func TestC009(t *testing.T) {
	t.Parallel()
	// This server's own stdin is a pipe that stays open.
	c, dir := dial(t, startServer(t, serverOptions{}).url), privateDir(t)
	began := time.Now()
	c.start("p1", dir, []string{"cat"}, nil)
	if status := c.writeStdin("p1", []byte("x")); status != "stdinClosed" {
		t.Errorf("status of the write: %s", status)
	}
	if h := c.closed("p1"); h.exitCode != 0 || len(h.chunks) > 0 {
		t.Errorf("exit code %d, output %q", h.exitCode, h.output(""))
	}
	if took := time.Since(began); took > slack*time.Second {
		t.Errorf("cat took %v", took)
	}
}
