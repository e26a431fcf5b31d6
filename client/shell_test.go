package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
)

// take returns the text of the next n events.
func take(t *testing.T, r *client.Run, n int) string {
	t.Helper()
	var out strings.Builder
	for range n {
		e, err := r.Next(t.Context())
		if err != nil {
			t.Fatalf("after %q: %v", out.String(), err)
		}
		if e.Ended() {
			fmt.Fprintf(&out, "[%d exit %d]", e.Seq, e.ExitCode)
		} else {
			fmt.Fprintf(&out, "[%d %s %s]", e.Seq, e.Stream, e.Data)
		}
	}
	return out.String()
}

func TestExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := newFakeRuns()
		c := serveWorkspace(t, nil, runs).open(t)
		r, err := c.Exec(t.Context(), client.DurableCommand{
			Line: "make -j2", Dir: "/workspace/src", Env: map[string]string{"A": "b"}, Stdin: []byte("in"), Timeout: time.Minute, ID: "r",
		})
		if err != nil {
			t.Fatal(err)
		}
		minute := time.Minute
		want := shell.Request{Command: "make -j2", Cwd: "/workspace/src", ID: "r", Env: map[string]string{"A": "b"}, Stdin: []byte("in"), Timeout: &minute}
		if diff := cmp.Diff(want, runs.run("r").request); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		runs.print("r", stdout("out"), stderr("b"))
		if got := take(t, r, 2); got != "[1 stdout out][2 stderr b]" {
			t.Error(got)
		}
		if _, ended := r.ExitCode(); ended || r.Seq() != 2 {
			t.Error("it has ended, it says")
		}
		runs.print("r", exit(143))
		if got := take(t, r, 1); got != "[3 exit 143]" {
			t.Error(got)
		}
		if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		if code, ended := r.ExitCode(); code != 143 || !ended {
			t.Errorf("%d, %v", code, ended)
		}

		pid := 7
		info := []protocol.ExecInfo{{ID: "r", PID: &pid, Command: "make -j2", Cwd: "/workspace/src", StartedAtMs: time.Time{}.UnixMilli()}}
		for _, ended := range []bool{false, true} {
			list, truncated, err := c.Runs(t.Context(), ended)
			if diff := cmp.Diff(info, list); diff != "" || truncated != ended || err != nil {
				t.Errorf("list: %v, %v\n%s", truncated, err, diff)
			}
		}

		all, err := c.GetExec(t.Context(), "r", 1)
		if err != nil {
			t.Fatal(err)
		}
		if last, ended, known := all.Recorded(); last != 3 || ended || !known {
			t.Errorf("recorded: %d, %v, %v", last, ended, known)
		}
		var out, errOut strings.Builder
		if code, err := all.Wait(t.Context(), &out, &errOut); code != 143 || err != nil || out.String() != "" || errOut.String() != "b" {
			t.Errorf("%d, %v, %q, %q", code, err, out.String(), errOut.String())
		}
		for name, timeout := range map[string]time.Duration{"none": client.NoTimeout, "default": 0} {
			if _, err := c.Exec(t.Context(), client.DurableCommand{Line: "x", Timeout: timeout, ID: name}); err != nil {
				t.Fatal(err)
			}
		}
		if d := runs.run("none").request.Timeout; d == nil || *d != 0 {
			t.Errorf("no timeout is %v", d)
		}
		if d := runs.run("default").request.Timeout; d != nil {
			t.Errorf("the default timeout is %v", d)
		}
	})
}

func TestExecErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := newFakeRuns()
		c := serveWorkspace(t, nil, runs).open(t)
		ctx := t.Context()
		_, err := c.GetExec(ctx, "no", 0)
		failure, ok := errors.AsType[*client.Error](err)
		if !ok || failure.Name != "ENOENT" || !errors.Is(err, iofs.ErrNotExist) || err.Error() != "no exec record for id no" {
			t.Errorf("unknown: %v", err)
		}
		if err := c.KillExec(ctx, "no", "SIGKILL"); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("kill: %v", err)
		}
		if err := c.DisposeExec(ctx, "no"); err != nil {
			t.Errorf("dispose: %v", err)
		}
		r, err := c.Exec(ctx, client.DurableCommand{Line: "x"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.GetExec(ctx, r.ID(), 0)
		if failure, ok = errors.AsType[*client.Error](err); !ok || failure.Name != "EEXEC_BUSY" {
			t.Errorf("busy: %v", err)
		}
		if err := errors.Join(c.KillExec(ctx, r.ID(), ""), c.KillExec(ctx, r.ID(), "SIGINT")); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"", "SIGINT"}, runs.run(r.ID()).signals); diff != "" {
			t.Error(diff)
		}
		if err := c.DisposeExec(ctx, r.ID()); err != nil {
			t.Error(err)
		}
		if _, err := r.Wait(ctx, nil, nil); !errors.Is(err, client.ErrDisposed) {
			t.Errorf("disposed: %v", err)
		}
	})
}

// A run that is followed no more may be followed again at once.
func TestExecFollowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := newFakeRuns()
		c := serveWorkspace(t, nil, runs).open(t)
		r, err := c.Exec(t.Context(), client.DurableCommand{Line: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			runs.print(r.ID(), stdout("a"))
			if got := take(t, r, 1); got != fmt.Sprintf("[%d stdout a]", i+1) {
				t.Fatal(got)
			}
			seq := r.Seq()
			r.Close()
			if _, err := r.Next(t.Context()); err == nil {
				t.Fatal("a closed run has events")
			}
			if r, err = c.GetExec(t.Context(), r.ID(), seq); err != nil {
				t.Fatalf("time %d: %v", i, err)
			}
		}
		r.Close()
		tail, err := c.TailExec(t.Context(), r.ID())
		if err != nil || tail.Seq() != 20 {
			t.Fatalf("tail at %d, %v", tail.Seq(), err)
		}
		runs.print(r.ID(), exit(0))
		if got := take(t, tail, 1); got != "[21 exit 0]" {
			t.Error(got)
		}
	})
}

// Cuts lose and double nothing, wherever they come.
func TestExecCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := newFakeRuns()
		s := serveWorkspace(t, nil, runs)
		c := s.open(t)
		r, err := c.Exec(t.Context(), client.DurableCommand{Line: "x"})
		if err != nil {
			t.Fatal(err)
		}
		seq := 0
		for i := range 30 {
			runs.print(r.ID(), stdout("a"), stderr("b"))
			switch i % 3 {
			case 0:
				s.cut()
			case 1: // what has arrived is read after the cut
				synctest.Wait()
				s.cut()
			}
			if i%5 == 4 {
				s.cut()
				synctest.Wait()
			}
			want := fmt.Sprintf("[%d stdout a][%d stderr b]", seq+1, seq+2)
			if got := take(t, r, 2); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			seq += 2
		}
		// While it waits.
		go func() {
			synctest.Wait()
			s.cut()
			runs.print(r.ID(), exit(7))
		}()
		if got := take(t, r, 1); got != "[61 exit 7]" {
			t.Error(got)
		}
	})
}

// A run whose start was not answered is found, if it was started.
func TestExecAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := newFakeRuns()
		runs.lost = make(chan struct{})
		s := serveWorkspace(t, nil, runs)
		c := s.open(t)
		go func() {
			<-runs.lost
			runs.mu.Lock()
			runs.lost = nil
			runs.mu.Unlock()
			s.cut()
		}()
		r, err := c.Exec(t.Context(), client.DurableCommand{Line: "x"})
		if err != nil {
			t.Fatal(err)
		}
		runs.print(r.ID(), stdout("a"), exit(0))
		if got := take(t, r, 2); got != "[1 stdout a][2 exit 0]" || runs.started != 1 {
			t.Errorf("%s, started %d times", got, runs.started)
		}
	})
}

// Whoever gives up in the moment in which the connection ends is told of either.
func TestNextGivenUpAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveWorkspace(t, nil, newFakeRuns())
		r, err := s.open(t).Exec(t.Context(), client.DurableCommand{Line: "x"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.cut()
		synctest.Wait()
		if _, err := r.Next(ctx); !errors.Is(err, client.ErrTransportClosed) && !errors.Is(err, context.Canceled) {
			t.Errorf("next: %v", err)
		}
	})
}

// The end of the Client ends its followers, not the runs.
func TestExecClientEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := newFakeRuns()
		s := serveWorkspace(t, nil, runs)
		c := s.open(t)
		r, err := c.Exec(t.Context(), client.DurableCommand{Line: "x", ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			synctest.Wait()
			_ = c.Close()
		}()
		if _, err := r.Next(t.Context()); !errors.Is(err, client.ErrClosed) {
			t.Errorf("next: %v", err)
		}
		synctest.Wait() // the server has noticed
		runs.print("r", stdout("a"))
		other, err := s.open(t).GetExec(t.Context(), "r", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := take(t, other, 1); got != "[1 stdout a]" {
			t.Error(got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := other.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a quiet run: %v", err)
		}
		runs.print("r", exit(0)) // Next may be called again
		if got := take(t, other, 1); got != "[2 exit 0]" {
			t.Error(got)
		}
	})
}
