package process

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
)

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

// A session reads, writes to and resizes the process of another one that it names.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := NewDirectory()
		spawner := &fakeSpawner{exact: true}
		one := NewService(&recorder{}, Config{SessionID: "one", Directory: directory, Spawner: &fakeSpawner{}})
		two := NewService(&recorder{}, Config{SessionID: "two", Directory: directory, Spawner: spawner})
		defer closeService(t, one)
		defer closeService(t, two)
		p := fakeParams("p")
		p.TTY = true
		start(t, two, p)
		child := spawner.child(t, 0)
		child.outputs[0].print("hi")
		session, gone, wait := "two", "gone", uint64(1000)
		r, err := one.read(t.Context(), &protocol.ReadParams{ProcessID: "p", SessionID: &session, WaitMs: &wait})
		if err != nil || len(r.Chunks) != 1 || string(r.Chunks[0].Chunk) != "hi" {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := one.resize(t.Context(), &protocol.ResizeParams{ProcessID: "p", SessionID: &session, Rows: 7, Cols: 9}); err != nil {
			t.Error(err)
		}
		if len(child.resized) != 1 || child.resized[0] != (Size{Rows: 7, Cols: 9}) {
			t.Errorf("%+v", child.resized)
		}
		if w, err := one.write(t.Context(), &protocol.WriteParams{ProcessID: "p", SessionID: &session, Chunk: []byte("x")}); err != nil || w.Status != protocol.WriteAccepted {
			t.Errorf("%+v, %v", w, err)
		}
		if w, err := one.write(t.Context(), &protocol.WriteParams{ProcessID: "p", SessionID: &gone}); err != nil || w.Status != protocol.WriteUnknownProcess {
			t.Errorf("%+v, %v", w, err)
		}
		for _, id := range []*string{nil, &gone} {
			_, err := one.read(t.Context(), &protocol.ReadParams{ProcessID: "p", SessionID: id})
			refused(t, err, protocol.CodeInvalidRequest, "unknown process id p")
		}
	})
}

func TestListInfo(t *testing.T) {
	bubble(t, Config{SessionID: "s"}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		p := fakeParams("p")
		p.TTY, p.Argv, p.Cwd = true, []string{"/bin/sh", strings.Repeat("x", protocol.MaxListedArgvBytes), "cut", "cut too"}, "file:///usr/../tmp/"
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
