package process

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
)

// fakeLauncher confines by a wrapper that it is told.
type fakeLauncher struct {
	confine func(ctx context.Context, cmd Launch) (Confined, error)

	policy  *protocol.Sandbox
	managed *protocol.ManagedNetwork
	enforce bool
	calls   []Launch
}

func (l *fakeLauncher) Confine(ctx context.Context, policy *protocol.Sandbox, managed *protocol.ManagedNetwork, enforce bool, cmd Launch) (Confined, error) {
	l.policy, l.managed, l.enforce = policy, managed, enforce
	l.calls = append(l.calls, cmd)
	return l.confine(ctx, cmd)
}

func sandboxed(p *protocol.StartParams) *protocol.StartParams {
	p.Sandbox = &protocol.Sandbox{WindowsSandboxLevel: "disabled"}
	return p
}

func TestConfinedStart(t *testing.T) {
	launcher := &fakeLauncher{}
	var held *os.File
	launcher.confine = func(_ context.Context, cmd Launch) (Confined, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return Confined{}, err
		}
		w.Close()
		held = r
		cmd.Argv = append([]string{"helper", "--"}, cmd.Argv...)
		cmd.Path, cmd.Dir, cmd.Env = "/helper", "/helper-dir", append(cmd.Env, "HELPER=1")
		return Confined{Launch: cmd, Files: []*os.File{r}, Started: func() (*os.File, error) { return nil, nil }, Type: protocol.SandboxLinux}, nil
	}
	bubble(t, Config{Sandbox: launcher}, func(t *testing.T, s *Service, spawner *fakeSpawner, client *recorder) {
		p := sandboxed(fakeParams("p"))
		p.EnforceManagedNetwork, p.ManagedNetwork = true, &protocol.ManagedNetwork{LoopbackPorts: []uint16{80}}
		if r := start(t, s, p); r.SandboxType != protocol.SandboxLinux {
			t.Errorf("start: %+v", r)
		}
		if launcher.policy != p.Sandbox || launcher.managed != p.ManagedNetwork || !launcher.enforce {
			t.Errorf("the launcher got %+v", launcher)
		}
		shell, err := findProgram("sh", "/", envOf(p))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Launch{{Path: shell, Argv: []string{"sh"}, Env: envOf(p), Dir: "/"}}, launcher.calls); diff != "" {
			t.Errorf("to be confined (-want +got):\n%s", diff)
		}
		got := spawner.child(t, 0).cmd
		if len(got.Files) != 1 || got.Files[0] != held {
			t.Errorf("files are %v", got.Files)
		}
		got.Files = nil
		want := Command{Path: "/helper", Argv: []string{"helper", "--", "sh"}, Env: append(envOf(p), "HELPER=1"), Dir: "/helper-dir"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("started (-want +got):\n%s", diff)
		}
		if err := held.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the file was left open: %v", err)
		}
		if info := s.infos()[0]; info.SandboxType != protocol.SandboxLinux {
			t.Errorf("listed as %+v", info)
		}

		// What the sandbox has refused shows, late output included.
		child := spawner.child(t, 0)
		child.holds = true
		child.end(WaitStatus{Code: 2})
		time.Sleep(quietTime / 2)
		child.outputs[1].print("Permission denied")
		time.Sleep(quietTime)
		synctest.Wait()
		wantEvents(t, client, "1 stderr Permission denied", "2 exited 2 denied")
		if r, err := s.read(t.Context(), &protocol.ReadParams{ProcessID: "p"}); err != nil || !r.SandboxDenied {
			t.Errorf("read: %+v, %v", r, err)
		}

		// Without a policy it is not called, and nothing is denied.
		start(t, s, fakeParams("free"))
		child = spawner.child(t, 1)
		child.outputs[1].print("Permission denied")
		child.end(WaitStatus{Code: 2})
		synctest.Wait()
		wantEvents(t, client, "1 stderr Permission denied", "2 exited 2", "3 closed")
		if len(launcher.calls) != 1 {
			t.Errorf("it was called %d times", len(launcher.calls))
		}
	})
}

func TestConfinedStartFails(t *testing.T) {
	helper := func(started error) func(context.Context, Launch) (Confined, error) {
		return func(_ context.Context, cmd Launch) (Confined, error) {
			return Confined{Launch: cmd, Started: func() (*os.File, error) { return nil, started }, Type: protocol.SandboxLinux}, nil
		}
	}
	for name, tt := range map[string]struct {
		confine func(context.Context, Launch) (Confined, error)
		code    protocol.Code
		kind    string
		text    string
	}{
		"cannot be confined": {
			func(context.Context, Launch) (Confined, error) { return Confined{}, errors.New("no Landlock here") },
			protocol.CodeInvalidParams, protocol.KindSandboxUnavailable, "no Landlock here",
		},
		"bad policy": {
			func(context.Context, Launch) (Confined, error) {
				return Confined{}, protocol.Errorf(protocol.CodeInvalidRequest, "bad policy")
			},
			protocol.CodeInvalidRequest, "", "bad policy",
		},
		"program is missing":    {helper(syscall.ENOENT), protocol.CodeInternal, protocol.KindSpawnNotFound, "No such file"},
		"program is not to run": {helper(syscall.EACCES), protocol.CodeInternal, protocol.KindSpawnPermissionDenied, "Permission denied"},
		"helper died":           {helper(io.ErrUnexpectedEOF), protocol.CodeInternal, protocol.KindSpawnFailed, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{Sandbox: &fakeLauncher{confine: tt.confine}}, func(t *testing.T, s *Service, spawner *fakeSpawner, client *recorder) {
				_, err := s.start(t.Context(), sandboxed(fakeParams("p")))
				refused(t, err, tt.code, tt.text)
				if got := kindOf(err); got != tt.kind {
					t.Errorf("kind is %q, want %q", got, tt.kind)
				}
				for i := range spawner.count() {
					child := spawner.child(t, i)
					if !child.ended || !child.closed || !child.outputs[0].closed || !child.outputs[1].closed {
						t.Error("something of the helper is left")
					}
				}
				synctest.Wait()
				wantEvents(t, client)
				if len(s.entries) != 0 {
					t.Error("the id is taken")
				}
			})
		})
	}
}

// TestConfinedScript: what the system cannot execute is given to the shell, confined
// as well.
func TestConfinedScript(t *testing.T) {
	script := t.TempDir() + "/script"
	if err := os.WriteFile(script, []byte("echo hi\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	launcher := &fakeLauncher{}
	launcher.confine = func(_ context.Context, cmd Launch) (Confined, error) {
		return Confined{Launch: cmd, Type: protocol.SandboxLinux, Started: func() (*os.File, error) {
			if cmd.Path == script {
				return nil, syscall.ENOEXEC
			}
			return nil, nil
		}}, nil
	}
	bubble(t, Config{Sandbox: launcher}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		p := sandboxed(fakeParams("p"))
		p.Argv = []string{script, "arg"}
		start(t, s, p)
		want := []string{"/bin/sh", script, "arg"}
		if got := spawner.child(t, 1).cmd; got.Path != "/bin/sh" || cmp.Diff(want, got.Argv) != "" {
			t.Errorf("started %s %q", got.Path, got.Argv)
		}
		if len(launcher.calls) != 2 {
			t.Errorf("%d programs were confined", len(launcher.calls))
		}
	})
}

// TestConfinedStartHangs: a helper that does not get to its exec is killed, when the
// time is over or with the service.
func TestConfinedStartHangs(t *testing.T) {
	for name, end := range map[string]func(*Service){"time": func(*Service) {}, "close": func(s *Service) {
		go func() { _ = s.Close() }()
	}} {
		t.Run(name, func(t *testing.T) {
			dead := make(chan struct{})
			launcher := &fakeLauncher{confine: func(_ context.Context, cmd Launch) (Confined, error) {
				return Confined{Launch: cmd, Started: func() (*os.File, error) { <-dead; return nil, io.ErrUnexpectedEOF }, Type: protocol.SandboxLinux}, nil
			}}
			synctest.Test(t, func(t *testing.T) {
				dead = make(chan struct{})
				spawner := &fakeSpawner{exact: true}
				s := NewService(&recorder{}, Config{Sandbox: launcher, Spawner: spawner})
				defer closeService(t, s)
				go func() {
					for spawner.count() == 0 {
						time.Sleep(time.Millisecond)
					}
					<-spawner.child(t, 0).signals
					close(dead)
				}()
				begin := time.Now()
				time.AfterFunc(time.Second, func() { end(s) })
				_, err := s.start(t.Context(), sandboxed(fakeParams("p")))
				if err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
					t.Errorf("start: %v", err)
				}
				want := map[string]time.Duration{"time": launchTime, "close": time.Second}[name]
				if took := time.Since(begin); took != want {
					t.Errorf("it took %v, want %v", took, want)
				}
			})
		})
	}
}

// envOf is the environment that p asks for.
func envOf(p *protocol.StartParams) []string {
	env, err := childEnv(nil, p.Env, nil)
	if err != nil {
		panic(err)
	}
	return env
}
