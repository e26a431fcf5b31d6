package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watch starts wsd sync --watch.
func (p *syncPair) watch(args ...string) (*exec.Cmd, *logBuffer) {
	p.t.Helper()
	cmd, out := p.command(append([]string{"sync", "--watch", "--state", p.state}, args...)...), &logBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// endWatch sends a signal to a watch, and wants its status and a text.
func (p *syncPair) endWatch(cmd *exec.Cmd, out *logBuffer, sig os.Signal, status int, text string) {
	p.t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != status || !strings.Contains(out.String(), text) {
		p.t.Errorf("status %d, want %d and %q\n%s", code, status, text, out)
	}
}

// A watch reports that its server is away and that it is back. Its status says whether all was the same
// on both sides.
func TestWatchReportsLostServer(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "f"), "text")
	p.serve()
	watch, out := p.watch(p.here, p.url)
	waitFor(t, out, "watching both sides")
	lost := "wsd: the connection to " + p.url + " is lost; trying again\n"
	p.server.end(syscall.SIGKILL)
	waitFor(t, out, lost)
	p.serve()
	waitFor(t, out, "wsd: connected again\n")
	writeFile(t, filepath.Join(p.here, "g"), "more")
	waitFor(t, out, "to the server: 1 path, 4 B; from there: 0 paths, 0 B\nwatching")
	waitFor(t, out, "connected again\nto the server: 1 path")
	p.endWatch(watch, out, syscall.SIGINT, 0, lost)

	watch, out = p.watch(p.here, p.url)
	waitFor(t, out, "watching both sides")
	p.server.end(syscall.SIGKILL)
	waitFor(t, out, lost)
	p.endWatch(watch, out, syscall.SIGINT, 1, "Error: ended without a connection to the server")
}

// A watch that a signal ends in its first push has not brought all over.
func TestWatchEndedInFirstPush(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "large"), strings.Repeat("much of it\n", 1<<20))
	p.serve()
	l, err := net.Listen("unix", filepath.Join(p.home, "front"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stuck := make(chan error, 1)
	go func() { // ends with the watch's connection
		near, err := l.Accept()
		if err != nil {
			stuck <- err
			return
		}
		defer near.Close()
		far, err := net.Dial("unix", strings.TrimPrefix(p.url, "unix://"))
		if err != nil {
			stuck <- err
			return
		}
		defer far.Close()
		go func() { _, _ = io.Copy(near, far) }()
		_, err = io.CopyN(far, near, 100<<10)
		stuck <- err
		<-t.Context().Done()
	}()
	watch, out := p.watch(p.here, "unix://"+filepath.Join(p.home, "front"))
	if err := <-stuck; err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.endWatch(watch, out, syscall.SIGINT, 1, "Error: ended before all had come over")
}

// A watch names pipes and sockets that come and go on either side, though nothing else changes.
func TestWatchNamesSpecialFiles(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "f"), "text")
	p.serve()
	watch, out := p.watch(p.here, p.url)
	waitFor(t, out, "watching both sides")
	pipe, socket := filepath.Join(p.here, "pipe"), filepath.Join(p.there, "socket")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, "left out here: pipe: neither file, directory nor link\n")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	waitFor(t, out, "left out at the server: socket: neither file, directory nor link\n")
	for _, path := range []string{pipe, socket} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, out, "nothing is left out any more\n")
	if err := syscall.Mkfifo(pipe+"2", 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, "left out here: pipe2")
	p.endWatch(watch, out, syscall.SIGTERM, exitLeftOut, "Error: 1 path cannot be synchronised")
}

// What is held in conflict is not the same on both sides: each run says so by its status.
func TestHeldHasStatus(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "a"), "base")
	p.serve()
	p.sync().want(t, 0)
	writeFile(t, filepath.Join(p.here, "a"), "mine")
	writeFile(t, filepath.Join(p.there, "a"), "theirs")
	const held = "1 path held in conflict; all else is the same on both sides"
	exec := func(command string, flags ...string) outcome {
		args := append([]string{"exec", "--sync", "--on-conflict", "hold", "--dir", p.here, "--state", p.state, "--connect", p.url}, flags...)
		return p.run(append(args, "--", "sh", "-c", command)...)
	}
	for range 2 {
		exec("true").want(t, exitHeld, "the command ended with status 0, but not all is the same", "Error: "+held, "Hint: to list them, with the command for each: wsd sync conflicts ")
	}
	exec("exit 9").want(t, 9, "(?m)^"+held+"; to list them: wsd sync conflicts ")
	exec("exit 9", "--json").want(t, 9, `(?m)^{"type":"held","count":1}$`)
	if out := exec("exit 9", "-q"); out.code != 9 || out.stderr != "" {
		t.Errorf("-q: %d, %s", out.code, out.stderr)
	}
	watch, out := p.watch("--on-conflict", "hold", p.here, p.url)
	waitFor(t, out, "held in conflict, and left as they are on both sides: 1 path; to list them: wsd sync conflicts ")
	waitFor(t, out, "watching both sides")
	p.endWatch(watch, out, syscall.SIGTERM, exitHeld, "Error: "+held)
	watch, out = p.watch("--on-conflict", "hold", p.here, p.url)
	waitFor(t, out, "watching both sides")
	writeFile(t, filepath.Join(p.there, "a"), "mine")
	waitFor(t, out, "nothing is held in conflict any more")
	p.endWatch(watch, out, syscall.SIGTERM, 0, "")
	if err := syscall.Mkfifo(filepath.Join(p.here, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.here, "a"), "mine again")
	writeFile(t, filepath.Join(p.there, "a"), "theirs again")
	p.sync("--on-conflict", "hold").want(t, exitHeld, "Error: 1 path held in conflict, 1 path cannot be synchronised; all else")
}
