package process

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
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
			"very long id":   {func(p *protocol.StartParams) { p.ProcessID = strings.Repeat("x", maxProcessIDBytes+1) }, "processId", ""},
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

// TestRead follows exec-rpc.md, section 3.7.
func TestRead(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		read := func(after, maxBytes, waitMs *uint64) string {
			s.Helper()
			begin := time.Now()
			r, err := s.service.read(s.Context(), &protocol.ReadParams{ProcessID: "p", AfterSeq: after, MaxBytes: maxBytes, WaitMs: waitMs})
			if err != nil {
				s.Fatal(err)
			}
			var seqs []string
			for _, chunk := range r.Chunks {
				seqs = append(seqs, fmt.Sprint(chunk.Seq))
			}
			out := fmt.Sprintf("[%s] next %d", strings.Join(seqs, " "), r.NextSeq)
			if r.Exited {
				out += fmt.Sprintf(" exited %d", *r.ExitCode)
			}
			if r.Closed {
				out += " closed"
			}
			if waited := time.Since(begin); waited > 0 {
				out += fmt.Sprintf(" after %v", waited)
			}
			return out
		}
		n := func(v uint64) *uint64 { return &v }
		check := func(got, want string) {
			s.Helper()
			if got != want {
				s.Errorf("got  %s\nwant %s", got, want)
			}
		}
		check(read(nil, nil, nil), "[] next 1")
		check(read(nil, nil, n(0)), "[] next 1")
		check(read(nil, nil, n(300)), "[] next 1 after 300ms")
		for _, text := range []string{"aaaa", "bbbb", "cc"} {
			s.out().print(text)
			synctest.Wait()
		}
		check(read(nil, nil, nil), "[1 2 3] next 4")
		check(read(n(1), nil, n(1000)), "[2 3] next 4")
		check(read(nil, n(0), nil), "[1] next 2")
		check(read(nil, n(4), nil), "[1] next 2")
		check(read(nil, n(7), nil), "[1] next 2")
		check(read(nil, n(8), nil), "[1 2] next 3")
		check(read(nil, n(1<<63), nil), "[1 2 3] next 4")
		check(read(n(3), n(8), nil), "[] next 4")
		check(read(n(3), nil, n(100)), "[] next 4 after 100ms")
		check(read(n(99), nil, nil), "[] next 4")
		check(read(n(1<<63), nil, n(100)), "[] next 4 after 100ms")
		go func() {
			time.Sleep(200 * time.Millisecond)
			s.out().print("d")
		}()
		check(read(n(3), nil, n(1000)), "[4] next 5 after 200ms")

		// A wait that cannot be counted in nanoseconds ends with the event all the same.
		go func() {
			time.Sleep(time.Hour)
			s.child.holds = true
			s.child.end(WaitStatus{Code: 9})
		}()
		check(read(n(4), nil, n(1<<64-1)), fmt.Sprintf("[] next 6 exited 9 after %v", time.Hour+quietTime))
		check(read(n(4), nil, n(1000)), "[] next 6 exited 9")
		check(read(n(5), nil, n(1000)), "[] next 6 exited 9 after 1s")
		check(read(n(3), n(1), nil), "[4] next 5 exited 9")
		s.out().print("late")
		s.out().finish()
		s.stderr().finish()
		synctest.Wait()
		check(read(n(5), nil, n(1000)), "[6] next 8 exited 9 closed")
		check(read(n(7), nil, n(1000)), "[] next 8 exited 9 closed")

		_, err := s.service.read(s.Context(), &protocol.ReadParams{ProcessID: "nope", WaitMs: n(1000)})
		refused(s.T, err, protocol.CodeInvalidRequest, "unknown process id nope")
		time.Sleep(protocol.ProcessRetention + time.Second)
		_, err = s.service.read(s.Context(), &protocol.ReadParams{ProcessID: "p"})
		refused(s.T, err, protocol.CodeInvalidRequest, "unknown process id p")
	})
}

// TestReadEndsWithItsConnection: a long poll returns what is known when nobody waits
// for it any more.
func TestReadEndsWithItsConnection(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		wait := uint64(3_600_000)
		r, err := s.service.read(ctx, &protocol.ReadParams{ProcessID: "p", WaitMs: &wait})
		if err != nil || r.NextSeq != 1 || time.Since(s.begin) != time.Second {
			s.Errorf("got %+v, %v after %v", r, err, time.Since(s.begin))
		}
	})
}

func TestWriteAnswers(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		write := func(id string, writeID *string) string {
			t.Helper()
			r, err := s.write(t.Context(), &protocol.WriteParams{ProcessID: id, Chunk: []byte("x"), WriteID: writeID})
			if err != nil {
				return err.Error()
			}
			return r.Status
		}
		closeStdin := func(id string) string {
			t.Helper()
			r, err := s.closeStdin(t.Context(), &protocol.ProcessParams{ProcessID: id})
			if err != nil {
				return err.Error()
			}
			return r.Status
		}
		check := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		start(t, s, fakeParams("null"))
		pipe := fakeParams("pipe")
		pipe.PipeStdin = true
		start(t, s, pipe)
		term := fakeParams("term")
		term.TTY = true
		start(t, s, term)

		_, err := s.write(t.Context(), &protocol.WriteParams{ProcessID: "pipe", WriteID: new(string)})
		refused(t, err, protocol.CodeInvalidParams, "writeId must not be empty")
		check(write("nope", nil), "unknownProcess")
		check(closeStdin("nope"), "unknownProcess")
		check(write("null", nil), "stdinClosed")
		check(closeStdin("null"), "stdinClosed")
		id := "1"
		check(write("pipe", &id), "accepted")
		check(closeStdin("pipe"), "accepted")
		check(write("pipe", nil), "stdinClosed")
		check(write("pipe", &id), "accepted") // it was
		check(closeStdin("pipe"), "stdinClosed")
		check(closeStdin("term"), "accepted")
		check(write("term", nil), "accepted")
		for _, in := range []*slowInput{spawner.child(t, 1).input, spawner.child(t, 2).input} {
			in.take <- nil
			in.take <- nil
		}
		synctest.Wait()
		check(spawner.child(t, 1).input.written(), "x EOF")
		check(spawner.child(t, 2).input.written(), "EOF x")

		// One that has ended by itself takes writes while it is kept.
		spawner.child(t, 2).end(WaitStatus{})
		synctest.Wait()
		check(write("term", nil), "accepted")
		time.Sleep(protocol.ProcessRetention + time.Second)
		check(write("term", nil), "unknownProcess")
	})
}

// TestWriteGivenUp: a write that waits for room is taken back when its connection
// ends; the process is not changed by it.
func TestWriteGivenUp(t *testing.T) {
	play(t, true, func(p *protocol.StartParams) { p.PipeStdin = true }, func(s *scene) {
		for range protocol.MaxQueuedWrites {
			if _, err := s.service.write(s.Context(), &protocol.WriteParams{ProcessID: "p", Chunk: []byte("a")}); err != nil {
				s.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		id := "given up"
		if r, err := s.service.write(ctx, &protocol.WriteParams{ProcessID: "p", Chunk: []byte("b"), WriteID: &id}); err == nil {
			s.Errorf("answer is %+v", r)
		}
		for range protocol.MaxQueuedWrites {
			s.child.input.take <- nil
		}
		if r, err := s.service.write(s.Context(), &protocol.WriteParams{ProcessID: "p", Chunk: []byte("c"), WriteID: &id}); err != nil || r.Status != protocol.WriteAccepted {
			s.Errorf("repeat: %+v, %v", r, err)
		}
		s.child.input.take <- nil
		synctest.Wait()
		if got := s.child.input.written(); !strings.HasSuffix(got, "a c") || strings.Contains(got, "b") {
			s.Errorf("written: %s", got)
		}
	})
}

func TestSignalTargets(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		send := func(signal string, target *string) error {
			_, err := s.service.signal(s.Context(), &protocol.SignalParams{ProcessID: "p", Signal: signal, Target: target})
			return err
		}
		group, process, other := "group", "process", "other"
		for _, err := range []error{send("interrupt", nil), send("HUP", &group), send("10", &process)} {
			if err != nil {
				s.Error(err)
			}
		}
		want := []fakeSignal{{syscall.SIGINT, true}, {syscall.SIGHUP, true}, {syscall.SIGUSR1, false}}
		if diff := cmp.Diff(want, s.signals(), cmp.AllowUnexported(fakeSignal{})); diff != "" {
			s.Errorf("signals (-want +got):\n%s", diff)
		}
		refused(s.T, send("nope", nil), protocol.CodeInvalidParams, "unknown signal")
		refused(s.T, send("TERM", &other), protocol.CodeInvalidParams, "unknown variant `other`")
		if _, err := s.service.signal(s.Context(), &protocol.SignalParams{ProcessID: "unknown", Signal: "TERM"}); err != nil {
			s.Errorf("unknown process: %v", err)
		}
		s.child.end(WaitStatus{})
		synctest.Wait()
		if err := send("KILL", nil); err != nil {
			s.Errorf("process that has exited: %v", err)
		}
		if got := s.signals(); len(got) != 0 {
			s.Errorf("it got %v", got)
		}
	})
}

func TestDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := NewDirectory()
		var services []*Service
		var spawners []*fakeSpawner
		for _, id := range []string{"one", "two"} {
			spawner := &fakeSpawner{exact: true}
			s := NewService(&recorder{}, Config{SessionID: id, Directory: directory, Spawner: spawner})
			defer closeService(t, s)
			services, spawners = append(services, s), append(spawners, spawner)
			start(t, s, fakeParams("p")) // the same id in both
			time.Sleep(time.Second)
		}
		list := func(scope *string) string {
			t.Helper()
			r, err := services[0].list(t.Context(), &protocol.ListParams{Scope: scope})
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, info := range r.Processes {
				out = append(out, fmt.Sprintf("%s/%s exited=%v", info.SessionID, info.ProcessID, info.Exited))
			}
			return strings.Join(out, ", ")
		}
		session, server, other, two, gone := "session", "server", "other", "two", "gone"
		if got := list(nil); got != "one/p exited=false" || list(&session) != got {
			t.Errorf("session: %s", got)
		}
		if got := list(&server); got != "one/p exited=false, two/p exited=false" {
			t.Errorf("server: %s", got)
		}
		_, err := services[0].list(t.Context(), &protocol.ListParams{Scope: &other})
		refused(t, err, protocol.CodeInvalidParams, "unknown variant `other`")

		if _, err := services[0].signal(t.Context(), &protocol.SignalParams{ProcessID: "p", Signal: "USR1", SessionID: &two}); err != nil {
			t.Error(err)
		}
		if sig := <-spawners[1].child(t, 0).signals; sig.sig != syscall.SIGUSR1 {
			t.Errorf("the other session's process got %v", sig)
		}
		if r, err := services[0].terminate(t.Context(), &protocol.TerminateParams{ProcessID: "p", SessionID: &gone}); err != nil || r.Running {
			t.Errorf("unknown session: %+v, %v", r, err)
		}
		if r, err := services[0].terminate(t.Context(), &protocol.TerminateParams{ProcessID: "p", SessionID: &two}); err != nil || !r.Running {
			t.Errorf("other session: %+v, %v", r, err)
		}
		synctest.Wait()
		if got := list(&server); got != "one/p exited=false, two/p exited=true" {
			t.Errorf("server: %s", got)
		}
		if n := directory.Running(); n != 1 {
			t.Errorf("%d are running", n)
		}
		closeService(t, services[1])
		if got := list(&server); got != "one/p exited=false" {
			t.Errorf("server, without the other session: %s", got)
		}
	})
}

func TestListInfo(t *testing.T) {
	bubble(t, Config{SessionID: "s"}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		p := fakeParams("p")
		p.TTY, p.Argv, p.Cwd = true, []string{"/bin/sh", strings.Repeat("x", maxListedArgvBytes), "cut", "cut too"}, "file:///usr/../tmp/"
		begin := time.Now()
		start(t, s, p)
		spawner.child(t, 0).outputs[0].print("a")
		synctest.Wait()
		info := s.infos()[0]
		argv := info.Argv
		info.Argv = nil
		want := protocol.ProcessInfo{
			SessionID: "s", ProcessID: "p", PID: 1001, Cwd: "file:///tmp", TTY: true,
			StartedAtMs: begin.UnixMilli(), NextSeq: 2, SandboxType: protocol.SandboxNone,
		}
		if diff := cmp.Diff(want, info); diff != "" {
			t.Errorf("info (-want +got):\n%s", diff)
		}
		if len(argv) != 3 || argv[0] != "/bin/sh" || !strings.HasSuffix(argv[1], "x…") || argv[2] != "…" {
			t.Errorf("argv has %d entries, the last is %q", len(argv), argv[len(argv)-1])
		}
		spawner.child(t, 0).end(WaitStatus{Code: 5})
		synctest.Wait()
		if info := s.infos()[0]; !info.Exited || !info.Closed || *info.ExitCode != 5 || info.NextSeq != 4 {
			t.Errorf("after its end: %+v", info)
		}
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

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		spawner, client := &fakeSpawner{exact: true}, &recorder{}
		s := NewService(client, Config{Spawner: spawner})
		var waits []chan error
		later := func(fn func() error) {
			done := make(chan error, 1)
			waits = append(waits, done)
			go func() { done <- fn() }()
		}
		for i := range 5 {
			p := fakeParams(fmt.Sprint("p", i))
			p.PipeStdin = true
			ms := uint64(60_000)
			p.TimeoutMs = &ms
			start(t, s, p)
			later(func() error {
				_, err := s.read(t.Context(), &protocol.ReadParams{ProcessID: p.ProcessID, WaitMs: &ms})
				return err
			})
		}
		spawner.child(t, 0).end(WaitStatus{}) // kept
		spawner.child(t, 1).holds = true
		client.stall()
		for range 20 {
			spawner.child(t, 2).outputs[0].print(strings.Repeat("x", 64<<10))
		}
		spawner.slow = make(chan struct{})
		later(func() error {
			_, err := s.start(t.Context(), fakeParams("late"))
			return err
		})
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			close(spawner.slow) // a start under way is waited for
		}()
		closeService(t, s)
		closeService(t, s)
		for _, done := range waits {
			if err := <-done; err != nil && !errors.Is(err, rpc.ErrClosed) {
				t.Errorf("request that waited: %v", err)
			}
		}
		for i := range spawner.count() {
			if c := spawner.child(t, i); !c.closed || !c.ended {
				t.Errorf("child %d: closed %v, ended %v", i, c.closed, c.ended)
			}
		}
		if spawner.closed != 1 {
			t.Errorf("the spawner was closed %d times", spawner.closed)
		}
		_, err := s.start(t.Context(), fakeParams("q"))
		refused(t, err, protocol.CodeInvalidRequest, "the session is ending")
		if _, err := s.read(t.Context(), &protocol.ReadParams{ProcessID: "p0"}); err == nil {
			t.Error("a process of a closed service can be read")
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines, %d before", after, before)
		}
	})
}

// TestCloseGivesUpOnStuckChild: a child that SIGKILL does not end, because the kernel
// waits for a disk, must not keep the server from ending.
func TestCloseGivesUpOnStuckChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawner := &fakeSpawner{exact: true}
		s := NewService(&recorder{}, Config{Spawner: spawner})
		for i := range 3 {
			start(t, s, fakeParams(fmt.Sprint("p", i)))
		}
		spawner.child(t, 1).obey = false
		begin := time.Now()
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 do not end") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begin); took != closeTime {
			t.Errorf("it took %v", took)
		}
		spawner.child(t, 1).end(WaitStatus{})
	})
}

// countingLog is a LogStore that knows when it was closed.
type countingLog struct {
	*MemoryLog
	closes *int
}

func (l countingLog) Close() error { *l.closes++; return nil }

func TestLogIsClosedOnce(t *testing.T) {
	closes := 0
	cfg := Config{Retention: time.Minute, OpenLog: func(string) (LogStore, error) { return countingLog{NewMemoryLog(Retention{}), &closes}, nil }}
	bubble(t, cfg, func(t *testing.T, s *Service, spawner *fakeSpawner, client *recorder) {
		client.stall()
		start(t, s, fakeParams("p"))
		spawner.child(t, 0).end(WaitStatus{})
		time.Sleep(2 * time.Minute)
		if closes != 0 {
			t.Error("closed before the client was told of everything")
		}
		client.resume()
		synctest.Wait()
		wantEvents(t, client, "1 exited 0", "2 closed")
		if closes != 1 {
			t.Errorf("closed %d times", closes)
		}
		spawner.fail = &SpawnError{Op: opExec, Errno: syscall.ENOMEM}
		if _, err := s.start(t.Context(), fakeParams("q")); kindOf(err) != protocol.KindSpawnFailed {
			t.Errorf("start: %v", err)
		}
		if closes != 2 {
			t.Errorf("closed %d times after a failed start", closes)
		}
	})
}

func TestOpenLogFails(t *testing.T) {
	cfg := Config{OpenLog: func(string) (LogStore, error) { return nil, errDiskFull }}
	bubble(t, cfg, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		_, err := s.start(t.Context(), fakeParams("p"))
		refused(t, err, protocol.CodeInternal, "no space left")
		if spawner.count() != 0 || len(s.entries) != 0 {
			t.Error("something was started")
		}
	})
}
