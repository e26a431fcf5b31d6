package target

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	// A shell that lets a child burn processor time, waits for it, and idles.
	path := program(t, `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; sleep 61 & echo ws://127.0.0.1:4000; wait`)
	s, err := Start(t.Context(), Config{Kind: Wsd, Path: path, Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
	self, children, err := s.CPU()
	if err != nil || children < 10*time.Millisecond || self > children {
		t.Errorf("CPU: %v itself, %v its children, %v", self, children, err)
	}
	if rss, err := s.RSS(); err != nil || rss < 100<<10 || rss > 100<<20 {
		t.Errorf("RSS: %d, %v", rss, err)
	}
	if err := s.ResetPeak(); err != nil {
		t.Errorf("ResetPeak: %v", err)
	}
	if u, err := s.Usage(); err != nil || u.CPU < children || u.Calls < 20 || u.Peak < 100<<10 || u.Peak > 100<<20 {
		t.Errorf("Usage: %+v, %v", u, err)
	}
	if n, err := s.Descriptors(); err != nil || n < 3 {
		t.Errorf("descriptors: %d, %v", n, err)
	}
	if n, err := s.Threads(); err != nil || n != 1 {
		t.Errorf("threads: %d, %v", n, err)
	}
	if pids, err := s.Children(); err != nil || len(pids) != 1 {
		t.Errorf("children: %v, %v", pids, err)
	}
}

// What a command costs includes its children.
func TestMeasure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `i=0; (while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 1000000 /dev/zero >"$0"); exit 3`, path)
	u, err := Measure(cmd)
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 3 || err == nil {
		t.Fatalf("Measure: %v, %v", cmd.ProcessState, err)
	}
	if u.CPU <= 0 || u.Calls < 1_000_000 || u.Calls > 1_100_000 || u.Peak < 100<<10 || u.Peak > 100<<20 {
		t.Errorf("Measure = %+v", u)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(exec.CommandContext(ctx, "sleep", "61")); err == nil {
		t.Error("a command that was cancelled has no error")
	}
	r, w := io.Pipe()
	ctx, cancel = context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 61 & echo started; wait")
	cmd.Stdout = w
	go func() { // ends once the command has printed, or with the pipe
		_, _ = r.Read(make([]byte, 8))
		cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	if _, err := Measure(cmd); err == nil {
		t.Error("a command whose child is killed has no error")
	}
	w.Close()
}

func TestRoom(t *testing.T) {
	if _, err := Room("/proc/nothing"); err == nil {
		t.Error("a directory that is not there has room")
	}
	dir := t.TempDir()
	if n, err := Room(dir); err == nil && n <= 0 {
		t.Errorf("Room = %d", n)
	}
	if err := Flush(dir); err != nil {
		t.Errorf("Flush: %v", err)
	}
}
