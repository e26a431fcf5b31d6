package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filesOfState are a state and the files beside it, with sizes and times.
func filesOfState(t *testing.T, db string) string {
	t.Helper()
	list, err := filepath.Glob(db + "*")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range list {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, name, info.Size(), info.ModTime())
	}
	return out.String()
}

// A first run with another server reads which servers the other states are of, and leaves them as they are.
func TestSyncLooksAtOtherStates(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "f"), "f\n")
	p.run("sync", p.here, p.url).want(t, 0)
	state := p.states()[0]
	before := filesOfState(t, state)
	other := newSyncPair(t)
	other.here, other.home = p.here, p.home
	other.serve()
	other.run("sync", "--dry-run", p.here, other.url).want(t, 0, "> file f")
	if diff := cmp.Diff(before, filesOfState(t, state)); diff != "" {
		t.Errorf("a dry run has changed a state: %s", diff)
	}
	other.run("sync", p.here, other.url).want(t, 0)
	if diff := cmp.Diff(before, filesOfState(t, state)); diff != "" {
		t.Errorf("a run with another server has changed a state: %s", diff)
	}
}

// A watch with one server holds up no first run with another one.
func TestSyncBesideWatchOfOtherServer(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "f"), "f\n")
	p.run("sync", p.here, p.url).want(t, 0)
	watch, _ := p.watching()
	other := newSyncPair(t)
	other.here, other.home = p.here, p.home
	other.serve()
	other.run("sync", p.here, other.url).want(t, 0)
	wantFile(t, filepath.Join(other.there, "f"), "f\n")
	if err := watch.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); err != nil {
		t.Error(err)
	}
}
