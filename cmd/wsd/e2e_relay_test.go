package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// relaySite is a relay, an executor behind it and the tokens of both sides, all of one
// user.
type relaySite struct {
	t               *testing.T
	home            string
	relay, executor *realServer
}

func newRelaySite(t *testing.T) *relaySite {
	t.Helper()
	s := &relaySite{t: t, home: t.TempDir()}
	s.startRelay("http://127.0.0.2:0") // where nobody else takes the port while it is away
	s.executor = startReal(t, s.command("serve", "--remote", s.relay.url, "--environment-id", "lab", "--token-file", s.token("executor")))
	return s
}

// command makes a command of the user of s.
func (s *relaySite) command(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := program(s.t, args...)
	cmd.Env = append(cmd.Env, "HOME="+s.home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "STATE_DIRECTORY=")
	return cmd
}

func (s *relaySite) startRelay(listen string) {
	s.t.Helper()
	s.relay = startReal(s.t, s.command("relay", "--listen", listen))
}

// token makes a token and returns its file.
func (s *relaySite) token(role string) string {
	s.t.Helper()
	secret, err := s.command("relay", "token", "create", "--role", role, "--environment", "lab").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.home, role+".token")
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// url is the executor's, without its fingerprint.
func (s *relaySite) url() string {
	return "relay://" + strings.TrimPrefix(s.relay.url, "http://") + "/lab"
}

// waitFile waits until path exists. Its maker has no other way to tell.
func waitFile(t *testing.T, path string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
		if _, err := os.Stat(path); !errors.Is(err, iofs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s", path)
		}
	}
}

// TestRelayRestarts ends the relay while a command runs, and starts it again: what the
// command printed meanwhile and what it was told meanwhile is all there, once.
func TestRelayRestarts(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := newRelaySite(t)
			dir := t.TempDir()
			gone, printed := filepath.Join(dir, "gone"), filepath.Join(dir, "printed")
			// In the middle it prints what nobody can take away, more than may be on the way:
			// at some time it has to wait for the relay.
			script := fmt.Sprintf(`echo first
				while ! test -e %[1]s; do sleep 0.01; done
				i=0; while test $i -lt 20000; do echo "line $i of what was printed meanwhile"; i=$((i+1)); test $i = 100 && : >%[2]s; done
				while read -r line; do echo "read $line"; done
				echo last >&2; exit 9`, gone, printed)
			var want, stderr bytes.Buffer
			for i := range 20000 {
				fmt.Fprintf(&want, "line %d of what was printed meanwhile\n", i)
			}
			cmd := s.command("exec", "--connect", s.url(), "--token-file", s.token("harness"), "--", "/bin/sh", "-c", script)
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stuck := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
			defer stuck.Stop()
			stdout := bufio.NewReader(out)
			if line, err := stdout.ReadString('\n'); err != nil || line != "first\n" {
				t.Fatalf("%q, %v\n%s", line, err, &stderr)
			}

			s.relay.end(sig)
			if err := os.WriteFile(gone, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range 1000 {
				fmt.Fprintf(in, "%d\n", i)
				fmt.Fprintf(&want, "read %d\n", i)
			}
			in.Close()
			waitFile(t, printed)
			began := time.Now()
			s.startRelay(s.relay.url)

			got, err := io.ReadAll(stdout)
			if err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			t.Logf("over %v after the relay was back", time.Since(began))
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%d bytes came, %d were printed", len(got), want.Len())
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 9 || !strings.HasSuffix(stderr.String(), "last\n") {
				t.Errorf("%v, stderr:\n%s", err, &stderr)
			}
		})
	}
}

// TestRelayTerminated ends relay and executor while a client uses both: that is quick, and
// leaves nothing running.
func TestRelayTerminated(t *testing.T) {
	s := newRelaySite(t)
	cmd := s.command("exec", "--connect", s.url(), "--token-file", s.token("harness"), "--", "/bin/sh", "-c", "echo $$; exec sleep 600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*realServer{s.relay, s.executor} {
		began := time.Now()
		r.end(syscall.SIGTERM)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%v ended after %v", r.Args[1:], took)
		} else {
			t.Logf("%v ended after %v", r.Args[1], took)
		}
	}
	waitGone(t, pid)
}

// revoke revokes the token of a role.
func (s *relaySite) revoke(role string) {
	s.t.Helper()
	list, err := s.command("relay", "token", "list").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	var id string
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); fields[1] == role {
			id = fields[0]
		}
	}
	if out, err := s.command("relay", "token", "revoke", id).CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
}

// TestRelayRevoked closes the connection of a client whose token is revoked in the middle
// of a command, and of an executor, which then ends since nobody takes it.
func TestRelayRevoked(t *testing.T) {
	s := newRelaySite(t)
	cmd := s.command("exec", "--connect", s.url(), "--token-file", s.token("harness"), "--", "/bin/sh", "-c", "echo begun; exec sleep 600")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Kill(); _ = s.executor.Process.Kill() })
	defer stuck.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}

	s.revoke("harness")
	began := time.Now()
	err = cmd.Wait()
	t.Logf("the client ended after %v", time.Since(began))
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitTransport || !strings.Contains(stderr.String(), "401 unauthorized") {
		t.Errorf("the client: %v\n%s", err, &stderr)
	}
	s.revoke("executor")
	began = time.Now()
	err = s.executor.Wait()
	t.Logf("the executor ended after %v", time.Since(began))
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitFailure || !strings.Contains(s.executor.log.String(), "401 unauthorized") {
		t.Errorf("the executor: %v", err)
	}
}
