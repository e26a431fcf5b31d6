package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
)

// A process that has a store open collects it for another one of the user's, and for nobody once it has
// ended.
func TestCollectDoor(t *testing.T) {
	dir := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	store := filepath.Join(dir, "s.db")
	writeFile(t, store, "")
	if _, open, err := askDoor(t.Context(), store, true); open || err != nil {
		t.Fatalf("nobody has it open: %v, %v", open, err)
	}
	path, err := collectDoorPath(store)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "of a process that was killed")
	broken := errors.New("broken")
	door, err := openCollectDoor(store, func(_ context.Context, now bool) (protocol.CollectResult, error) {
		if !now {
			return protocol.CollectResult{}, broken
		}
		return protocol.CollectResult{Chunks: 2, Bytes: 5, Marked: 1}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[]\n", "null\nx", strings.Repeat(" ", 2*maxDoorBytes)} { // nobody of ours
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(text))
		_ = conn.Close()
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(store, link); err != nil {
		t.Fatal(err)
	}
	if done, open, err := askDoor(t.Context(), link, true); !open || err != nil || done != (protocol.CollectResult{Chunks: 2, Bytes: 5, Marked: 1}) {
		t.Errorf("%+v, %v, %v", done, open, err)
	}
	if _, open, err := askDoor(t.Context(), store, false); !open || err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("an error: %v, %v", open, err)
	}
	silent, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := door.Close(); err != nil {
		t.Error(err)
	}
	_ = silent.Close()
	if _, open, err := askDoor(t.Context(), store, true); open || err != nil {
		t.Errorf("it is closed: %v, %v", open, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is there: %v", err)
	}
}

// F5: wsd gc collects what wsd sync keeps of a directory, while it is watched and while it is not.
func TestF5CollectsWhatSyncKeeps(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "f"), "text")
	p.serve()
	p.run("sync", p.here, p.url).want(t, 0)
	stores, err := filepath.Glob(filepath.Join(p.home, "state/wsd/sync/*.db"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("the states: %v, %v", stores, err)
	}
	collect := func(args ...string) {
		t.Helper()
		cmd := p.command(append([]string{"gc", "--now"}, args...)...)
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+p.home)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "deleted ") {
			t.Errorf("gc %v: %v\n%s", args, err, out)
		}
	}
	collect(p.here)
	watch, out := p.command("sync", "--watch", p.here, p.url), &logBuffer{}
	watch.Env = append(watch.Env, "XDG_RUNTIME_DIR="+p.home)
	watch.Stdout, watch.Stderr = out, out
	writeFile(t, filepath.Join(p.here, "g"), "more")
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, "to the server: 1 path")
	collect(p.here)
	collect("--store", stores[0])
	if err := errors.Join(watch.Process.Signal(syscall.SIGTERM), watch.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	collect(filepath.Join(p.here, "sub"))
}
