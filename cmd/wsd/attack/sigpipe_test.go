//go:build attack && linux

package attack

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
)

// sigpipeTimeout bounds each wait of these tests.
const sigpipeTimeout = time.Minute

// An unread program prints to a pipe that nobody reads.
type unread struct {
	w     *world
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once ended is closed
}

// unread starts wsd with args. Its stdout and stderr are one pipe, whose reader leaves
// after the first byte, as `| head -c 1` does, or at once.
func (w *world) unread(first bool, args ...string) *unread {
	w.Helper()
	r, out, err := os.Pipe()
	if err != nil {
		w.Fatal(err)
	}
	u := &unread{w: w, cmd: w.command(args...), ended: make(chan struct{})}
	u.cmd.Stdout, u.cmd.Stderr = out, out
	if !first {
		_ = r.Close()
	}
	err = u.cmd.Start()
	_ = out.Close()
	if err != nil {
		w.Fatal(err)
	}
	go func() { // ends with the program, which the test ends
		defer close(u.ended)
		u.err = u.cmd.Wait()
	}()
	w.Cleanup(func() {
		_ = u.cmd.Process.Kill()
		<-u.ended
	})
	if first {
		_ = r.SetReadDeadline(time.Now().Add(sigpipeTimeout))
		if _, err := r.Read(make([]byte, 1)); err != nil {
			w.Fatalf("%q prints nothing: %v", args, err)
		}
		_ = r.Close()
	}
	return u
}

// until returns once done holds, which the program must live to see.
func (u *unread) until(what string, done func() bool) {
	u.w.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	limit := time.NewTimer(sigpipeTimeout)
	defer limit.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-u.ended:
			u.w.Fatalf("until %s: %q has ended: %v", what, u.cmd.Args[1:], u.err)
		case <-limit.C:
			u.w.Fatalf("no %s of %q", what, u.cmd.Args[1:])
		}
	}
}

// terminate ends the program by SIGTERM.
func (u *unread) terminate() {
	u.w.Helper()
	_ = u.cmd.Process.Signal(syscall.SIGTERM)
	<-u.ended
	if u.err != nil {
		u.w.Errorf("%q: after SIGTERM: %v", u.cmd.Args[1:], u.err)
	}
}

// freeAddr returns an address of this machine that nobody listens at.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answers reports whether GET of a URL is answered.
func answers(url string) bool {
	resp, err := http.Get(url) //nolint:noctx // to this machine
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}

func TestSigpipeServe(t *testing.T) {
	each(t, func(w *world) {
		for _, first := range []bool{false, true} {
			addr := freeAddr(t)
			u := w.unread(first, "serve", "--listen", "ws://"+addr, "--workspace", w.dir, "--store", filepath.Join(w.home, "s.db"), "--log-level", "debug")
			u.until("answer", func() bool { return answers("http://" + addr + "/healthz") })
			for range 3 { // each is logged
				ctx, cancel := context.WithTimeout(w.Context(), sigpipeTimeout)
				c, err := client.Dial(ctx, "ws://"+addr, nil)
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				got := (&server{w: w}).sh(c, nil, "grep SigIgn /proc/self/status; (kill -PIPE $(exec sh -c 'echo $PPID'); echo ignored)")
				if !strings.Contains(got.stdout, "SigIgn:\t0000000000000000") || strings.Contains(got.stdout, "ignored") {
					t.Errorf("a child ignores SIGPIPE: %q", got.text())
				}
				_ = c.Close()
			}
			u.until("answer", func() bool { return answers("http://" + addr + "/healthz") })
			u.terminate()
		}
	})
}

func TestSigpipeRelay(t *testing.T) {
	each(t, func(w *world) {
		for _, first := range []bool{false, true} {
			addr := freeAddr(t)
			u := w.unread(first, "relay", "--listen", "http://"+addr, "--state", "memory:", "--audit-log", "-", "--log-level", "debug")
			for range 3 {
				u.until("answer", func() bool {
					resp, err := http.Post("http://"+addr+"/cloud/environment/lab/register", "application/json", strings.NewReader("{}")) //nolint:noctx // to this machine
					if err != nil {
						return false
					}
					_ = resp.Body.Close()
					return true
				})
			}
			u.terminate()
		}
	})
}

func TestSigpipeSyncWatch(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil, "--workspace", w.dir, "--store", filepath.Join(w.home, "s.db"))
		copied := filepath.Join(w.home, "copy")
		u := w.unread(false, "sync", "--watch", "--verbose", "--create", copied, s.URL)
		for _, name := range []string{"a", "b"} { // each is told
			w.write(filepath.Join(w.dir, name), name, 0o644)
			u.until("copy", func() bool {
				_, err := os.Stat(filepath.Join(copied, name))
				return err == nil
			})
		}
		u.terminate()
	})
}

// A command that prints what it was asked for ends by the signal, without a word.
func TestSigpipeOrdinary(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil, "--workspace", w.dir, "--store", filepath.Join(w.home, "s.db"))
		id, err := w.command("exec", "--connect", s.URL, "--detach", "--", "sh", "-c", "while echo yes; do :; done | head -c 1000000").Output()
		if err != nil {
			t.Fatal(err)
		}
		big := filepath.Join(w.dir, "big")
		w.write(big, strings.Repeat("yes\n", 250_000), 0o644)
		for _, args := range [][]string{{"log", "--follow", strings.TrimSpace(string(id))}, {"cat", big}} {
			r, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd := w.command(append([]string{args[0], "--connect", s.URL}, args[1:]...)...)
			cmd.Stdout, cmd.Stderr = out, &stderr
			err = cmd.Start()
			_ = out.Close()
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Read(make([]byte, 1))
			_ = r.Close()
			if err != nil {
				t.Error(err)
			}
			failure, _ := errors.AsType[*exec.ExitError](cmd.Wait())
			if failure == nil || failure.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || stderr.Len() != 0 {
				t.Errorf("%q ended with %v and %q", args, failure, stderr.String())
			}
		}
	})
}
