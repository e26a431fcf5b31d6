//go:build interop

package computer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for. It is for a loaded machine.
const patience = 4 * time.Minute

// named is the value of an environment variable that must be set.
func named(t *testing.T, variable string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Fatalf("%s is not set; run make interop", variable)
	}
	return value
}

// A lockedBuffer collects what a program prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A wsd is a server of a workspace, which can be killed and started again at the same
// address.
type wsd struct {
	t       *testing.T
	dir     string // the workspace
	state   string // where the server keeps its store
	listen  string // host and port
	secret  string
	env     []string
	log     lockedBuffer
	cmd     *exec.Cmd
	stopped chan error
}

// newWsd starts one, with more variables in its environment.
func newWsd(t *testing.T, secret string, env ...string) *wsd {
	t.Helper()
	w := &wsd{t: t, dir: t.TempDir(), state: t.TempDir(), listen: freePort(t), secret: secret, env: env}
	w.start()
	t.Cleanup(func() {
		if err := w.end(syscall.SIGTERM); err != nil {
			t.Errorf("wsd: %v", err)
		}
		if t.Failed() {
			t.Logf("wsd's log:\n%s", &w.log)
		}
	})
	return w
}

// freePort is an address of this machine where nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func (w *wsd) url() string { return "http://" + w.listen }

// start starts the server and waits until it listens.
func (w *wsd) start() {
	w.t.Helper()
	cmd := exec.Command(named(w.t, "WSD_BIN"), "serve", "--workspace", w.dir, "--listen", "ws://"+w.listen)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + w.state,
		"XDG_STATE_HOME=" + w.state, "XDG_RUNTIME_DIR=" + w.state, "TMPDIR=" + w.state,
	}, w.env...)
	if w.secret != "" {
		cmd.Env = append(cmd.Env, "RPC_CLIENT_SECRET="+w.secret)
	}
	cmd.Stderr = &w.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.cmd, w.stopped = cmd, make(chan error, 1)
	line := make(chan string, 1)
	go func() { // ends with the server
		text, _ := bufio.NewReader(stdout).ReadString('\n') // empty when it ends early
		line <- text
		w.stopped <- cmd.Wait()
	}()
	select {
	case text := <-line:
		if !strings.Contains(text, w.listen) {
			w.t.Fatalf("wsd announced %q:\n%s", text, &w.log)
		}
	case <-time.After(patience):
		w.t.Fatal("wsd does not start")
	}
}

// end ends the server with a signal. That it was killed is no error.
func (w *wsd) end(signal syscall.Signal) error {
	if w.cmd == nil {
		return nil
	}
	cmd := w.cmd
	w.cmd = nil
	if err := cmd.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case err := <-w.stopped:
		if signal == syscall.SIGKILL {
			return nil
		}
		return err
	case <-time.After(patience):
		return errors.Join(errors.New("it does not end"), cmd.Process.Kill())
	}
}

// script runs a script of testdata and makes a subtest of each check that it prints. What
// it says on other lines is answered by say, where there is one.
func script(t *testing.T, say func(line string) error, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--no-warnings", "--import", filepath.Join(dir, "preload.mjs"), filepath.Join(dir, name)}, args...)
	cmd := exec.CommandContext(ctx, named(t, "NODE_BIN"), args...)
	cmd.Env = append(os.Environ(), "NODE_OPTIONS=")
	cmd.WaitDelay = time.Second
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	passed, done := 0, false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		line := lines.Text()
		check, ok := strings.CutPrefix(line, "ok ")
		switch {
		case ok:
			passed++
			t.Run(check, func(*testing.T) {})
		case line == "done":
			done = true
		case say != nil && !strings.HasPrefix(line, "FAILED "):
			if err := say(line); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if _, err := fmt.Fprintln(stdin, "go on"); err != nil {
				t.Error(err)
			}
		default:
			t.Error(line)
		}
	}
	err = cmd.Wait()
	if !done || passed == 0 || err != nil && !t.Failed() {
		t.Errorf("%s: %d checks, at its end %v: %v\n%s", name, passed, done, err, &stderr)
	}
}
