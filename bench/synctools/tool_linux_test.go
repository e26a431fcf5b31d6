package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tool of these tests is a shell that copies a file.
func shell(t *testing.T, script string) *pair {
	t.Helper()
	copies := &tool{name: "copy", open: func(_ context.Context, _ *tool, p *pair) error {
		p.first = [][]string{{"sh", "-c", script, "sh", p.here, p.there}}
		p.again = p.first
		p.store[0] = p.home
		return write(filepath.Join(p.home, "store"), make([]byte, 10_000), 0o600)
	}}
	here := t.TempDir()
	if err := write(filepath.Join(here, "a"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := openPair(t.Context(), copies, here, t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSyncCost(t *testing.T) {
	p := shell(t, `cp "$1/a" "$2/a"`)
	c, err := p.sync(t.Context(), true, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if c.Wall <= 0 || c.Sides[0].Calls < 7 || c.Store[0] < 10_000 || c.Store[1] != 0 {
		t.Errorf("cost: %+v", c)
	}
	if data, err := os.ReadFile(filepath.Join(p.there, "a")); string(data) != "content" {
		t.Errorf("it came as %q, %v", data, err)
	}
	if err := p.close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestSyncFails(t *testing.T) {
	p := shell(t, `echo no room >&2; exit 1`)
	if _, err := p.sync(t.Context(), false, time.Minute); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a tool that fails: %v", err)
	}
	p = shell(t, `sleep 61`)
	if _, err := p.sync(t.Context(), false, 1); err == nil || !strings.Contains(err.Error(), "not done after 1ns") {
		t.Errorf("a tool that takes too long: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBudget)
	if _, err := p.sync(ctx, false, time.Minute); !errors.Is(err, errBudget) {
		t.Errorf("a run that is over: %v", err)
	}
}
