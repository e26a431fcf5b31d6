package target

import (
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
