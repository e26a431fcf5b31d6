package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRuntimeFiles(t *testing.T) {
	dir := runtimeDir(t.TempDir())
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	older := runningServer{URL: "ws://127.0.0.1:1", PID: 101, StartedAt: noon, Version: "1", Cwd: "/a b", TokenFile: "/t"}
	newer := runningServer{URL: "unix:///s", PID: 100, StartedAt: noon.Add(time.Second), Version: "2", Cwd: "/"}
	var regs []*registration
	for _, s := range []runningServer{older, newer} {
		reg, err := dir.register(s)
		if err != nil {
			t.Fatal(err)
		}
		regs = append(regs, reg)
		info, err := os.Stat(reg.path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", reg.path, info.Mode(), err)
		}
	}
	got, err := dir.servers()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runningServer{newer, older}, got); diff != "" {
		t.Errorf("servers, the newest first (-want +got):\n%s", diff)
	}
	for _, reg := range regs {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, err := dir.servers(); len(got) != 0 || err != nil {
		t.Errorf("after the end: %v, %v", got, err)
	}
	if left, _ := os.ReadDir(string(dir)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What a killed server leaves behind is not locked, whoever has its pid now.
func TestRuntimeFileStale(t *testing.T) {
	dir := runtimeDir(t.TempDir())
	reg, err := dir.register(runningServer{URL: "ws://127.0.0.1:1", PID: os.Getpid(), StartedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	reg.file.Close() // as the kernel does
	if got, err := dir.servers(); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := os.Stat(reg.path); !os.IsNotExist(err) {
		t.Errorf("the stale file is still there: %v", err)
	}
}

// A child that outlives its server must not keep the lock.
func TestRuntimeFileLockIsNotInherited(t *testing.T) {
	dir := runtimeDir(t.TempDir())
	reg, err := dir.register(runningServer{URL: "ws://127.0.0.1:1", PID: 1, StartedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = child.Wait() }()
	reg.file.Close()
	if got, _ := dir.servers(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestRuntimeFileOdd(t *testing.T) {
	dir := runtimeDir(t.TempDir())
	path := func(name string) string { return filepath.Join(string(dir), name) }
	if err := syscall.Mkfifo(path("fifo.json"), 0o600); err != nil { // must not block
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", path("link.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path("dir.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("other.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.Create(path("held.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := held.WriteString("{oops"); err != nil {
		t.Fatal(err)
	}
	if got, err := dir.servers(); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := os.Stat(path("other.txt")); err != nil {
		t.Error("a file that is not ours was removed")
	}
	if got, err := runtimeDir(path("none")).servers(); len(got) != 0 || err != nil {
		t.Errorf("no directory: %v, %v", got, err)
	}
}

func TestUserRuntimeDir(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	dir, err := userRuntimeDir()
	if err != nil || string(dir) != filepath.Join(base, "wsd") {
		t.Errorf("with XDG_RUNTIME_DIR: %q, %v", dir, err)
	}
	info, err := os.Stat(string(dir))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(string(dir), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := userRuntimeDir(); err == nil || !strings.Contains(err.Error(), "nobody else") {
		t.Errorf("a directory for all: %v", err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	for _, value := range []string{"", "relative"} {
		t.Setenv("XDG_RUNTIME_DIR", value)
		dir, err := userRuntimeDir()
		if err != nil || !strings.HasPrefix(string(dir), home) {
			t.Errorf("XDG_RUNTIME_DIR=%q: %q, %v", value, dir, err)
		}
	}
}
