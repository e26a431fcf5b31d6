package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
)

// patience bounds what these tests wait for.
const patience = 60 * time.Second

// realBinary is wsd as users have it: WSD_BIN, or built once for all tests.
var realBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("WSD_BIN"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "wsd-bin-*")
	if err != nil {
		return "", err
	}
	builtBinary = filepath.Join(dir, "wsd")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", builtBinary, ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return builtBinary, nil
})

// builtBinary is removed when the tests are over; empty if none was built.
var builtBinary string

// realServer is a server that a test started.
type realServer struct {
	*exec.Cmd
	t      *testing.T
	url    string
	stdout *bufio.Reader
	log    *logBuffer
}

// logBuffer is what a server logged, for failures.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// program makes a command of the real binary, with a runtime directory of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if raceEnabled {
		t.Skip("the real binary does not look for races")
	}
	path, err := realBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
	return cmd
}

// serveReal starts the real binary as a server and waits for its URL.
func serveReal(t *testing.T, args ...string) *realServer {
	t.Helper()
	return startReal(t, program(t, append([]string{"serve", "--listen", "ws://127.0.0.1:0"}, args...)...))
}

// startReal starts a command that serves and waits for its URL.
func startReal(t *testing.T, cmd *exec.Cmd) *realServer {
	t.Helper()
	r := &realServer{Cmd: cmd, t: t, log: &logBuffer{}}
	r.Stderr = r.log
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.ProcessState == nil {
			_ = r.Process.Kill()
			_ = r.Wait()
		}
		if t.Failed() {
			t.Logf("the log of %v:\n%s", cmd.Args[1:], r.log)
		}
	})
	r.stdout = bufio.NewReader(out)
	line, err := r.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("no URL: %v\n%s", err, r.log)
	}
	r.url = strings.TrimSpace(line)
	return r
}

// end ends the server with sig; it must end well unless that is a kill.
func (r *realServer) end(sig syscall.Signal) {
	r.t.Helper()
	if err := r.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	defer stuck.Stop()
	if err := r.Wait(); err != nil && sig != syscall.SIGKILL {
		r.t.Errorf("%v after %v: %v", r.Args[1:], sig, err)
	}
}

// dial connects to the server.
func (r *realServer) dial() *client.Client {
	r.t.Helper()
	c, err := client.Dial(r.t.Context(), r.url, &client.Options{Reconnect: client.Reconnect{Disabled: true}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// startSleeper starts a child that prints its pid and sleeps.
func startSleeper(t *testing.T, c *client.Client, tty bool) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := c.Start(ctx, client.Command{Argv: []string{"/bin/sh", "-c", "echo $$; exec sleep 600"}, Dir: "/", TTY: tty})
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// waitGone waits until no process has pid. Only a child's parent is told of its end,
// so all that is left is to look again.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(2 * time.Millisecond); !gone(pid); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// gone reports whether pid has ended; a zombie that nobody collects has too.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil { // no such file system, or gone by now
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

// A SIGKILLed server takes its children with it: pipe children by the parent-death
// signal, those on a terminal by its hang-up.
func TestKilledServerLeavesNoChildren(t *testing.T) {
	r := serveReal(t)
	c := r.dial()
	pids := []int{startSleeper(t, c, false), startSleeper(t, c, true)}
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.Wait()
	for _, pid := range pids {
		waitGone(t, pid)
	}
}

// quickest is the least time in which wsd starts and does next to nothing: it tells a
// slow machine from a slow server.
func quickest(t *testing.T) time.Duration {
	t.Helper()
	var times []time.Duration
	for range 5 {
		cmd := program(t, "version")
		began := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	return slices.Min(times)
}

// SIGTERM and SIGINT: children killed, status 0, within 50 ms on a quick machine.
func TestTerminatedServer(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		var times []time.Duration
		for range 5 {
			r := serveReal(t)
			c := r.dial()
			pids := []int{startSleeper(t, c, false), startSleeper(t, c, true)}
			began := time.Now()
			if err := r.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(r.stdout)
			if err := r.Wait(); err != nil || len(rest) != 0 {
				t.Fatalf("%v: %v, %q on stdout", sig, err, rest)
			}
			times = append(times, time.Since(began))
			for _, pid := range pids {
				if !gone(pid) {
					t.Errorf("%v: process %d outlived the server", sig, pid)
				}
			}
		}
		t.Logf("%v: exit after %v", sig, times)
		if best := slices.Min(times); best > max(50*time.Millisecond, 10*quickest(t)) {
			t.Errorf("%v: the quickest exit took %v", sig, best)
		}
	}
}

// The server listens within 30 ms of its start on a quick machine.
func TestStartTime(t *testing.T) {
	var times []time.Duration
	for range 10 {
		began := time.Now()
		r := serveReal(t)
		times = append(times, time.Since(began))
		_ = r.Process.Signal(syscall.SIGTERM)
		_ = r.Wait()
	}
	t.Logf("listening after %v", times)
	if best := slices.Min(times); best > max(30*time.Millisecond, 5*quickest(t)) {
		t.Errorf("the quickest start took %v", best)
	}
}
