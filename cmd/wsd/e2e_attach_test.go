package main

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A process that takes no input is shown all the same.
func TestFollowAndAttachNoInput(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	gate := p.home + "/gate"
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := p.command("exec", "--connect", p.url, "-n", "--", "sh", "-c", "echo begun; read x <"+gate+"; echo done; exit 5")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // its status is that of attach
	defer cmd.Process.Kill()
	joined := p.command("attach", "--connect", p.url, strconv.Itoa(p.awaitCommand("--running").PID))
	joined.Stdin = strings.NewReader("typed")
	shown := &logBuffer{}
	joined.Stdout = shown
	errs, err := joined.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := joined.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = joined.Process.Kill() }).Stop()
	messages := bufio.NewReader(errs)
	if said, err := messages.ReadString('\n'); said != "wsd attach: the process takes no input\n" || err != nil {
		t.Errorf("it says %q, %v", said, err)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if more, err := io.ReadAll(messages); len(more) > 0 || err != nil {
		t.Errorf("it says %q too, %v", more, err)
	}
	if err := joined.Wait(); err == nil || err.Error() != "exit status 5" || shown.String() != "begun\ndone\n" {
		t.Errorf("%v, %q", err, shown)
	}
}

// ^] leaves a process that does not read a large paste.
func TestFollowAndAttachPaste(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	screen := func(args ...string) (*os.File, func() error) {
		cmd := p.command(args...)
		f, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = f.Close()
		})
		return f, cmd.Wait
	}
	owner, _ := screen("exec", "--connect", p.url, "-t", "--", "sh", "-c", "stty raw -echo; echo ready; exec sleep 1000")
	lines := bufio.NewScanner(owner)
	for lines.Scan() && !strings.Contains(lines.Text(), "ready") {
		continue
	}
	joined, wait := screen("attach", "--connect", p.url, strconv.Itoa(p.awaitCommand("--running").PID))
	shown := bufio.NewReader(joined)
	for line := ""; !strings.Contains(line, "ready"); { // its terminal is raw by now
		var err error
		if line, err = shown.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	go io.Copy(io.Discard, shown) //nolint:errcheck // it ends with the terminal
	pasted := make(chan error, 1)
	go func() {
		_, err := io.WriteString(joined, strings.Repeat("x", 6<<20)+"\x1d")
		pasted <- err
	}()
	left := make(chan error, 1)
	go func() { left <- wait() }()
	for range 2 {
		select {
		case err := <-pasted:
			if err != nil {
				t.Error(err)
			}
		case err := <-left:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(patience):
			t.Fatal("^] does not leave")
		}
	}
}
