package main

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// A process that has a state open does what other commands of the user's ask for, and nothing once it has ended.
func TestDoor(t *testing.T) {
	for name, dir := range map[string]string{"short": "", "long": strings.Repeat("long/", 30)} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(shortDir(t), dir)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("XDG_RUNTIME_DIR", dir)
			testDoor(t, dir)
		})
	}
}

func testDoor(t *testing.T, dir string) {
	store := filepath.Join(dir, "s.db")
	writeFile(t, store, "")
	wantNone := func(what string) {
		t.Helper()
		if a, err := askDoor(t.Context(), store, &doorRequest{}); !errors.Is(err, errNoAnswer) {
			t.Fatalf("%s: %+v, %v", what, a, err)
		}
	}
	wantNone("nobody has it open")
	path, err := doorPath(store)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "of a process that was killed")
	wantNone("a killed process had it open")
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	door, err := openDoor(store, func(ctx context.Context, q *doorRequest) *doorAnswer {
		a := &doorAnswer{Busy: q.Do == "busy"}
		switch q.Do {
		case doorCollect:
			a.Collected = protocol.CollectResult{Chunks: 2, Bytes: 5, Marked: 1}
		case doorRestore:
			a.fail(&exitError{exitHeld, withHint(errors.New("broken"), "mend it")})
		case doorResolve: // until who asks has gone
			cancel()
			<-ctx.Done()
			close(gone)
		case "much":
			a.Stdout = make([]byte, maxDoorAnswer)
		default:
			a.Stdout = q.Path
		}
		return a
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != iofs.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	connect := func() net.Conn {
		t.Helper()
		name, at, err := socketName(path)
		if err != nil {
			t.Fatal(err)
		}
		defer at.Close()
		conn, err := net.Dial("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for _, text := range []string{"", "[]\n", "null\nx", strings.Repeat(" ", 2*maxDoorRequest)} { // nobody of ours
		conn := connect()
		_, _ = conn.Write([]byte(text))
		_ = conn.Close()
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(store, link); err != nil {
		t.Fatal(err)
	}
	a, err := askDoor(t.Context(), link, &doorRequest{Do: doorCollect, Now: true})
	if err != nil || a.err() != nil || a.Collected != (protocol.CollectResult{Chunks: 2, Bytes: 5, Marked: 1}) {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = askDoor(t.Context(), store, &doorRequest{Do: doorRestore})
	var out strings.Builder
	if err != nil || report(&out, a.err()) != exitHeld || out.String() != "Error: broken\nHint: mend it\n" {
		t.Errorf("an error: %+v, %v, %s", a, err, &out)
	}
	bytes := "caf\xe9"
	if a, err = askDoor(t.Context(), store, &doorRequest{Do: doorConflicts, Path: []byte(bytes)}); err != nil || string(a.Stdout) != bytes {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = askDoor(t.Context(), store, &doorRequest{Do: "much"}); err != nil || a.err() == nil || len(a.Stdout) != 0 {
		t.Errorf("more than there may be: %v", err)
	}
	if _, err = askDoor(t.Context(), store, &doorRequest{Do: "busy"}); !errors.Is(err, errNoAnswer) {
		t.Errorf("busy: %v", err)
	}
	if _, err = askDoor(ctx, store, &doorRequest{Do: doorResolve}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("it goes on for a command that has gone")
	}
	silent := connect()
	if _, err := io.ReadFull(silent, make([]byte, 1)); err != nil { // it is its turn
		t.Error(err)
	}
	if err := door.Close(); err != nil {
		t.Error(err)
	}
	_ = silent.Close()
	wantNone("it is closed")
	if _, err := os.Lstat(path); !errors.Is(err, iofs.ErrNotExist) {
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
