package process

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
)

// bubble runs fn with a service on a fakeSpawner.
func bubble(t *testing.T, cfg Config, fn func(t *testing.T, s *Service, spawner *fakeSpawner, client *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		spawner, client := &fakeSpawner{exact: true}, &recorder{}
		cfg.Spawner = spawner
		s := NewService(client, cfg)
		defer closeService(t, s)
		fn(t, s, spawner, client)
	})
}

// refused checks that err is a *protocol.Error with that code and text in it.
func refused(t *testing.T, err error, code protocol.Code, text string) {
	t.Helper()
	failure, ok := errors.AsType[*protocol.Error](err)
	if !ok || failure.Code != code || !strings.Contains(failure.Message, text) {
		t.Errorf("got %v, want code %d and %q", err, code, text)
	}
}

func kindOf(err error) string {
	if failure, ok := errors.AsType[*protocol.Error](err); ok {
		if data, ok := failure.Data.(protocol.SpawnErrorData); ok {
			return data.Kind
		}
	}
	return ""
}

func TestStartAtMostOnce(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Service, spawner *fakeSpawner, client *recorder) {
		if r := start(t, s, fakeParams("p")); r.Attached || r.ProcessID != "p" || r.SandboxType != protocol.SandboxNone {
			t.Errorf("first: %+v", r)
		}
		again := func() {
			t.Helper()
			if r := start(t, s, fakeParams("p")); !r.Attached || r.ProcessID != "p" || r.SandboxType != protocol.SandboxNone {
				t.Errorf("repeat: %+v", r)
			}
		}
		again()
		other := fakeParams("p")
		other.Argv = append(other.Argv, "x")
		_, err := s.start(t.Context(), other)
		refused(t, err, protocol.CodeInvalidRequest, "process p already exists")

		// The id is checked before the program and the directory are tried.
		other.Argv, other.Cwd = []string{"no-such-program"}, "file:///no/such/directory"
		_, err = s.start(t.Context(), other)
		refused(t, err, protocol.CodeInvalidRequest, "process p already exists")

		spawner.child(t, 0).end(WaitStatus{})
		synctest.Wait()
		again() // while it is kept
		time.Sleep(protocol.ProcessRetention - time.Millisecond)
		again()
		time.Sleep(2 * time.Millisecond)
		if r := start(t, s, fakeParams("p")); r.Attached {
			t.Error("after the retention the repeat is a start of its own")
		}
		if spawner.count() != 2 {
			t.Errorf("%d children were started", spawner.count())
		}
		synctest.Wait()
		wantEvents(t, client, "1 exited 0", "2 closed") // those of the first, once
	})
}

// TestRepeatDuringStart: a repeat that comes while the first is under way waits for
// it and shares what becomes of it.
func TestRepeatDuringStart(t *testing.T) {
	for name, failure := range map[string]error{"success": nil, "failure": &SpawnError{Op: opExec, Errno: syscall.EAGAIN}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
				spawner.slow, spawner.fail = make(chan struct{}), failure
				type outcome struct {
					result *protocol.StartResult
					err    error
				}
				outcomes := make(chan outcome, 3)
				for range 3 {
					go func() {
						r, err := s.start(t.Context(), fakeParams("p"))
						outcomes <- outcome{r, err}
					}()
				}
				synctest.Wait()
				if len(s.infos()) != 0 {
					t.Error("a start under way is listed")
				}
				// Requests about the process wait as well.
				reads := make(chan error, 1)
				go func() {
					_, err := s.read(t.Context(), &protocol.ReadParams{ProcessID: "p"})
					reads <- err
				}()
				synctest.Wait()
				close(spawner.slow)
				started, attached, failed := 0, 0, 0
				for range 3 {
					switch o := <-outcomes; {
					case o.err != nil:
						failed++
					case o.result.Attached:
						attached++
					default:
						started++
					}
				}
				err := <-reads
				if failure == nil && (started != 1 || attached != 2 || err != nil) ||
					failure != nil && (failed != 3 || err == nil || len(s.entries) != 0) {
					t.Errorf("%d started, %d attached, %d failed; read: %v", started, attached, failed, err)
				}
			})
		})
	}
}

func TestStartParams(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		for name, tt := range map[string]struct {
			change func(*protocol.StartParams)
			text   string
			kind   string
		}{
			"relative cwd":   {func(p *protocol.StartParams) { p.Cwd = "tmp" }, "relative URL without a base", ""},
			"foreign cwd":    {func(p *protocol.StartParams) { p.Cwd = "file:///C:/x" }, "is not valid on this exec-server host", ""},
			"other host":     {func(p *protocol.StartParams) { p.Cwd = "file://h/x" }, "is invalid on", ""},
			"bad thread id":  {func(p *protocol.StartParams) { p.Metadata = &protocol.StartMetadata{ThreadID: new(string)} }, "threadId", ""},
			"network proxy":  {func(p *protocol.StartParams) { p.NetworkProxy = new(protocol.Opaque) }, "networkProxy", protocol.KindSandboxUnavailable},
			"shell snapshot": {func(p *protocol.StartParams) { p.ShellSnapshot = new(protocol.Opaque) }, "shellSnapshot", protocol.KindSandboxUnavailable},
			"no sandbox here": {
				func(p *protocol.StartParams) { p.Sandbox = new(protocol.Sandbox) }, "no sandbox", protocol.KindSandboxUnavailable,
			},
			"size of a pipe": {func(p *protocol.StartParams) { p.Size = &protocol.TerminalSize{Rows: 1, Cols: 1} }, "tty is false", ""},
			"size of 0":      {func(p *protocol.StartParams) { p.TTY, p.Size = true, &protocol.TerminalSize{Rows: 0, Cols: 1} }, "1 to 10000", ""},
			"deadline of 0":  {func(p *protocol.StartParams) { p.TimeoutMs = new(uint64) }, "timeoutMs", ""},
			"very long id":   {func(p *protocol.StartParams) { p.ProcessID = strings.Repeat("x", protocol.MaxProcessIDBytes+1) }, "processId", ""},
			"inherit":        {func(p *protocol.StartParams) { p.EnvPolicy = &protocol.EnvPolicy{Inherit: "x"} }, "unknown variant `x`", ""},
		} {
			p := fakeParams("p")
			tt.change(p)
			_, err := s.start(t.Context(), p)
			refused(t, err, protocol.CodeInvalidParams, tt.text)
			if got := kindOf(err); got != tt.kind {
				t.Errorf("%s: kind is %q, want %q", name, got, tt.kind)
			}
		}
		if len(s.entries) != 0 || spawner.count() != 0 {
			t.Errorf("%d ids are taken, %d children were started", len(s.entries), spawner.count())
		}
	})
}

func TestStartCommand(t *testing.T) {
	environ := 0
	cfg := Config{Environ: func() []string { environ++; return []string{"HOME=/h", "PATH=/bin", "X_TOKEN=t"} }}
	bubble(t, cfg, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		p := fakeParams("p")
		p.Arg0, p.PipeStdin = new(string), true
		p.Argv = []string{"/bin/sh", "-c", "x"}
		p.EnvPolicy = &protocol.EnvPolicy{Inherit: "all"}
		start(t, s, p)
		want := Command{
			Path: "/bin/sh", Argv: []string{"", "-c", "x"}, Dir: "/", PipeStdin: true,
			Env: []string{"HOME=/h", "PATH=/usr/bin:/bin"},
		}
		if diff := cmp.Diff(want, spawner.child(t, 0).cmd); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}

		p = fakeParams("terminal")
		p.TTY, p.Argv = true, []string{"/bin/sh"}
		start(t, s, p)
		got := spawner.child(t, 1).cmd
		if got.Terminal == nil || *got.Terminal != (Size{24, 80}) {
			t.Errorf("terminal is %v", got.Terminal)
		}
		if shell, ok := envValue(got.Env, "SHELL"); !ok || !strings.HasPrefix(shell, "/") {
			t.Errorf("SHELL is %q", shell)
		}
		p = fakeParams("own shell")
		p.TTY, p.Env["SHELL"], p.EnvPolicy = true, "/bin/x", &protocol.EnvPolicy{Inherit: "none"}
		start(t, s, p)
		if shell, _ := envValue(spawner.child(t, 2).cmd.Env, "SHELL"); shell != "/bin/x" {
			t.Errorf("SHELL is %q", shell)
		}
		if environ != 1 {
			t.Errorf("the server's environment was taken %d times", environ)
		}
	})
}

func TestProcessLimit(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		for i := range protocol.MaxProcesses {
			s.entries[fmt.Sprint(i)] = nil // as if they were taken
		}
		_, err := s.start(t.Context(), fakeParams("p"))
		refused(t, err, protocol.CodeInvalidRequest, "as many as are possible")
		clear(s.entries)
		start(t, s, fakeParams("p"))
	})
}

// TestOutputFollowsTheAnswer: nothing is told of a process before the answer to its
// start is on the way.
func TestOutputFollowsTheAnswer(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Service, spawner *fakeSpawner, client *recorder) {
		r, err := check(fakeParams("p"), nil)
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := s.reserve("p", [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.starts.Done()
		if err := s.begin(e, r); err != nil {
			t.Fatal(err)
		}
		close(e.ready)
		spawner.child(t, 0).outputs[0].print("early")
		spawner.child(t, 0).end(WaitStatus{})
		synctest.Wait()
		wantEvents(t, client)
		close(e.replied) // what start has rpc.AfterReply do
		synctest.Wait()
		wantEvents(t, client, "1 stdout early", "2 exited 0", "3 closed")
	})
}
