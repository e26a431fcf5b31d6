package main

import (
	"fmt"
	"io"
	iofs "io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// killedRounds is how often TestSyncKilled kills.
const killedRounds = 10

// TestSyncKilled kills wsd sync and the server at random instants while both sides change.
// In the end they are the same, and each file is what was last written, on whichever side.
func TestSyncKilled(t *testing.T) {
	dir := shortDir(t)
	here, there := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	for _, d := range []string{here, there} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	serve := func() *realServer {
		cmd := program(t, "serve", "--workspace", there, "--store", filepath.Join(dir, "there.db"), "--listen", "unix://"+filepath.Join(dir, "s"))
		return startReal(t, cmd)
	}
	sync := func() *exec.Cmd {
		return program(t, "sync", "--merge", "--state", filepath.Join(dir, "here.db"), here, "unix://"+filepath.Join(dir, "s"))
	}
	want := map[string]string{}
	server := serve()
	for round := range killedRounds {
		// Each side has files of its own, so that there are no conflicts.
		for side, base := range map[string]string{"here": here, "there": there} {
			for range 40 {
				name := fmt.Sprintf("%s%d/f%d", side, random.IntN(4), random.IntN(30))
				if random.IntN(4) == 0 {
					delete(want, name)
					_ = os.Remove(filepath.Join(base, name))
					continue
				}
				want[name] = strings.Repeat(fmt.Sprintf("%d %s\n", round, name), 1+random.IntN(20_000))
				writeFile(t, filepath.Join(base, name), want[name])
			}
		}
		cmd := sync()
		var out logBuffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		instant := time.After(time.Duration(random.IntN(250)) * time.Millisecond)
		if round%2 == 0 {
			<-instant
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed, or done before
			continue
		}
		<-instant
		server.end(syscall.SIGKILL)
		server = serve()
		if err := cmd.Wait(); err != nil {
			if strings.HasPrefix(out.String(), "Error: connect to ") {
				continue // it had not come to know the server yet
			}
			t.Errorf("round %d: a sync that lost its server for a moment: %v\n%s", round, err, &out)
		}
	}
	if out, err := sync().CombinedOutput(); err != nil {
		t.Fatalf("sync: %v\n%s", err, out)
	}
	for name, base := range map[string]string{"here": here, "there": there} {
		if diff := cmp.Diff(sums(want), sums(readTree(t, base))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if out, err := sync().CombinedOutput(); err != nil || string(out) != "nothing has changed\n" {
		t.Errorf("another sync: %v, %s", err, out)
	}
	server.end(syscall.SIGTERM)
	if out, err := program(t, "fsck", "--workspace", there, "--store", filepath.Join(dir, "there.db")).CombinedOutput(); err != nil {
		t.Errorf("fsck: %v\n%s", err, out)
	}
}

// A server that is away for some attempts to connect again ends no sync.
func TestSyncTriesAgain(t *testing.T) {
	dir := shortDir(t)
	here, there := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	writeFile(t, filepath.Join(here, "large"), strings.Repeat("much of it\n", 1<<20))
	writeFile(t, filepath.Join(there, "small"), "")
	server := startReal(t, program(t, "serve", "--workspace", there, "--store", filepath.Join(dir, "there.db"), "--listen", "unix://"+filepath.Join(dir, "s")))
	front := filepath.Join(dir, "front")
	listen := func() net.Listener {
		l, err := net.Listen("unix", front)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	// pass takes a connection of l on to the server, and of what it sends limit bytes.
	pass := func(l net.Listener, limit int64) {
		near, err := l.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		far, err := net.Dial("unix", strings.TrimPrefix(server.url, "unix://"))
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		go func() {
			_, _ = io.Copy(near, far)
			_ = near.Close()
		}()
		_, _ = io.CopyN(far, near, limit)
	}
	l := listen()
	cmd := program(t, "sync", "--merge", "--state", filepath.Join(dir, "here.db"), here, "unix://"+front)
	var out logBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pass(l, 32<<10)
	l.Close()
	deadline := time.After(patience)
	for tick := time.NewTicker(2 * time.Millisecond); strings.Count(out.String(), "trying again") < 2; {
		select {
		case <-tick.C:
		case err := <-ended:
			t.Fatalf("%v\n%s", err, &out)
		case <-deadline:
			t.Fatalf("it does not try again\n%s", &out)
		}
	}
	l = listen()
	go func() { // ends with the listener
		for range 100 {
			pass(l, math.MaxInt64)
		}
	}()
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if diff := cmp.Diff(sums(readTree(t, here)), sums(readTree(t, there))); diff != "" {
		t.Errorf("(-here +there):\n%s", diff)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sums are the beginnings and lengths of files, for people to read.
func sums(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		first, _, _ := strings.Cut(text, "\n")
		out[name] = fmt.Sprintf("%s, %d", first, len(text))
	}
	return out
}

// A watch waits for a server that is not there yet. Any other error ends it.
func TestWatchWaitsForServer(t *testing.T) {
	dir := shortDir(t)
	here, there, url := filepath.Join(dir, "here"), filepath.Join(dir, "there"), "unix://"+filepath.Join(dir, "s")
	writeFile(t, filepath.Join(here, "f"), "from here")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	sync := func(args ...string) *exec.Cmd {
		return program(t, append([]string{"sync", "--state", filepath.Join(dir, "here.db")}, args...)...)
	}
	for _, args := range [][]string{{here, url}, {"--watch", filepath.Join(dir, "none"), url}, {"--watch", here, "ws://127.0.0.1:65536"}} {
		if out, err := sync(args...).CombinedOutput(); err == nil || strings.Contains(string(out), "trying again") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	start := func() (*exec.Cmd, *logBuffer) {
		cmd, out := sync("--watch", "-v", here, url), &logBuffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		waitFor(t, out, "trying again")
		return cmd, out
	}
	end := func(cmd *exec.Cmd, out *logBuffer, status int) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != status {
			t.Errorf("%v, want status %d\n%s", err, status, out)
		}
	}
	cmd, out := start()
	end(cmd, out, 1) // it has synchronised nothing
	cmd, out = start()
	server := startReal(t, program(t, "serve", "--workspace", there, "--store", filepath.Join(dir, "there.db"), "--listen", url))
	waitFor(t, out, "to the server: 1 path")
	if got := readTree(t, there); got["f"] != "from here" {
		t.Errorf("the server has %q", got)
	}
	end(cmd, out, 0)
	server.end(syscall.SIGTERM)
}

// waitFor waits until a program has printed something.
func waitFor(t *testing.T, out *logBuffer, text string) {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.NewTicker(2 * time.Millisecond); !strings.Contains(out.String(), text); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("there is no %q\n%s", text, out)
		}
	}
}
