//go:build e2e && linux

package netem

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A shell is an interactive one at the executor, on a terminal of the client's.
type shell struct {
	t      *testing.T
	write  func(text string) error
	screen *logBuffer
	asked  int
	ended  chan error
}

// openShell opens a shell that ends with the test.
func openShell(t *testing.T, w *world) *shell {
	t.Helper()
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 200}); err != nil {
		t.Fatal(err)
	}
	cmd := w.reach("shell")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true, Setctty: true}
	if err := w.client.do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	s := &shell{t: t, screen: newLog(), ended: make(chan error, 1)}
	s.write = func(text string) error { _, err := master.WriteString(text); return err }
	copied := make(chan struct{})
	go func() { // ends when the program has, or with the master
		defer close(copied)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = s.screen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() { s.ended <- cmd.Wait() }() // ends when the program has
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		master.Close()
		<-copied
		if t.Failed() {
			t.Logf("the shell showed:\n%q", tail(s.screen.String(), 3000))
		}
	})
	if err := s.ask(60 * time.Second); err != nil {
		t.Fatalf("the shell: %v", err)
	}
	return s
}

// ask types a command and waits for its answer, which the shell has to work out.
func (s *shell) ask(limit time.Duration) error {
	s.asked++
	if err := s.write(fmt.Sprintf("echo answer $((7000+%d))\n", s.asked)); err != nil {
		return err
	}
	return s.screen.wait(fmt.Sprintf("answer %d\r\n", 7000+s.asked), limit)
}

// count has the shell print numbered lines, ten a second for the time given.
func (s *shell) count(d time.Duration) (lines int, err error) {
	lines = int(d / (100 * time.Millisecond))
	return lines, s.write(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo line-$i.; i=$((i+1)); sleep 0.1; done; echo counted $((%d+0))\n", lines, lines))
}

var numbered = regexp.MustCompile(`line-(\d+)\.\r\n`)

// counted waits for the end of count, and says whether each line came, once, in order.
func (s *shell) counted(lines int, limit time.Duration) error {
	if err := s.screen.wait(fmt.Sprintf("counted %d\r\n", lines), limit); err != nil {
		return err
	}
	got := numbered.FindAllStringSubmatch(s.screen.String(), -1)
	for i, m := range got {
		if m[1] != strconv.Itoa(i) {
			return fmt.Errorf("line %s where %d should be", m[1], i)
		}
	}
	if len(got) != lines {
		return fmt.Errorf("%d lines of %d", len(got), lines)
	}
	return nil
}

// close leaves the shell, and wants it to end well.
func (s *shell) close() error {
	if err := s.write("exit 0\n"); err != nil {
		return err
	}
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(tail(s.screen.String(), 300)))
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("the shell did not end")
	}
}
