package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// states lists the states that are kept by themselves.
func (p *syncPair) states() []string {
	p.t.Helper()
	list, err := filepath.Glob(filepath.Join(p.home, "state", "wsd", "sync", "*.db"))
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

// watching begins a watch, with the state that is kept by itself, and waits until it is in step.
func (p *syncPair) watching() (*exec.Cmd, *logBuffer) {
	p.t.Helper()
	watch := p.command("sync", "--watch", p.here, p.url)
	out := &logBuffer{}
	watch.Stdout, watch.Stderr = out, out
	if err := watch.Start(); err != nil {
		p.t.Fatal(err)
	}
	endless := time.AfterFunc(patience, func() { _ = watch.Process.Kill() })
	p.t.Cleanup(func() {
		_ = watch.Process.Kill()
		_ = watch.Wait()
		endless.Stop()
	})
	waitFor(p.t, out, "watching both sides")
	return watch, out
}

// A directory that a watch has in step is in use, by whatever name the server is called.
func TestSyncWatchHoldsDirectory(t *testing.T) {
	p := newSyncPair(t)
	p.runtime, p.url = p.home, "ws://127.0.0.1:0"
	writeFile(t, filepath.Join(p.here, "f"), "f\n")
	p.serve()
	p.url = p.server.url
	other := strings.Replace(p.url, "ws://", "http://", 1)
	p.run("sync", p.here, p.url).want(t, 0)
	watch, _ := p.watching()
	for _, args := range [][]string{
		{"sync", p.here, p.url},
		{"sync", p.here},
		{"sync", p.here, other},
		{"sync", "--watch", p.here},
		{"sync", "--dry-run", p.here, other},
		{"sync", "conflicts", p.here},
		{"sync", "conflicts", p.here, other},
		{"sync", "resolve", "--ours", filepath.Join(p.here, "f")},
	} {
		o := p.run(args...)
		o.want(t, 1, "is in use by pid [0-9]+", "another 'wsd sync' of this directory runs; wait for its end, or end it")
		if strings.Contains(o.stderr, "never in step") {
			t.Errorf("%v: %s", args, o.stderr)
		}
	}
	p.run("exec", "--sync", "--dir", p.here, "--", "true").want(t, exitTransport, "is in use by pid [0-9]+", "another 'wsd sync' of this directory runs")
	if list := p.states(); len(list) != 1 {
		t.Errorf("states: %v", list)
	}
	if err := watch.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = watch.Wait()
	p.run("sync", p.here).want(t, 0, "nothing has changed")
	p.run("sync", p.here, other).want(t, 0, "nothing has changed")
	if list := p.states(); len(list) != 1 {
		t.Errorf("states: %v", list)
	}
}

// A state that cannot be read fails no run with another server.
func TestSyncDamagedStateApart(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "f"), "f\n")
	p.run("sync", p.here, p.url).want(t, 0)
	list := p.states()
	if len(list) != 1 {
		t.Fatalf("states: %v", list)
	}
	name := strings.TrimSuffix(list[0], ".db")
	damaged := name[:len(name)-16] + strings.Repeat("0", 16) + ".db"
	if err := os.WriteFile(damaged, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	other := newSyncPair(t)
	other.here, other.home = p.here, p.home
	other.serve()
	other.run("sync", p.here, other.url).want(t, 0, "a state of .*/here is left alone, as if there were none: look at .*"+filepath.Base(damaged))
	if list := p.states(); len(list) != 3 || !slices.Contains(list, damaged) {
		t.Errorf("states: %v", list)
	}
	wantFile(t, filepath.Join(other.there, "f"), "f\n")
}
