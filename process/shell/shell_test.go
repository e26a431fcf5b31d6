package shell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/shell"
)

func TestExec(t *testing.T) {
	t.Parallel()
	f := open(t)
	if err := os.Mkdir(filepath.Join(f.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r              shell.Request
		code           int
		stdout, stderr string
	}{
		"nothing":     {shell.Request{}, 0, "", ""},
		"stdout":      {shell.Request{Command: "echo hi"}, 0, "hi\n", ""},
		"stderr":      {shell.Request{Command: "echo hi >&2; exit 3"}, 3, "", "hi\n"},
		"binary":      {shell.Request{Command: `printf '\377\000\303'`}, 0, "\xff\x00\xc3", ""},
		"true":        {shell.Request{Command: "true"}, 0, "", ""},
		"255":         {shell.Request{Command: "exit 255"}, 255, "", ""},
		"HUP":         {shell.Request{Command: "kill -HUP $$"}, 129, "", ""},
		"INT":         {shell.Request{Command: "kill -INT $$"}, 130, "", ""},
		"KILL":        {shell.Request{Command: "kill -KILL $$"}, 137, "", ""},
		"TERM":        {shell.Request{Command: "kill -TERM $$"}, 143, "", ""},
		"USR1":        {shell.Request{Command: "kill -USR1 $$"}, 128 + int(syscall.SIGUSR1), "", ""},
		"cwd":         {shell.Request{Command: "pwd | sed 's:.*/::'", Cwd: "sub"}, 0, "sub\n", ""},
		"env":         {shell.Request{Command: "echo $A$B", Env: map[string]string{"A": "1", "B": "2"}}, 0, "12\n", ""},
		"no stdin":    {shell.Request{Command: "cat; echo end"}, 0, "end\n", ""},
		"stdin":       {shell.Request{Command: "cat; echo end", Stdin: []byte("in\n")}, 0, "in\nend\n", ""},
		"deaf":        {shell.Request{Command: "exec <&-; echo end", Stdin: make([]byte, 1<<20)}, 0, "end\n", ""},
		"big stdin":   {shell.Request{Command: "wc -c | tr -d ' '", Stdin: make([]byte, 3<<20)}, 0, "3145728\n", ""},
		"in time":     {shell.Request{Command: "echo hi", Timeout: timeout(time.Minute)}, 0, "hi\n", ""},
		"no deadline": {shell.Request{Command: "echo hi", Timeout: timeout(0)}, 0, "hi\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, events := f.exec(c.r)
			collect(t, events).want(t, c.code, c.stdout, c.stderr)
			if _, err := events.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %v", err)
			}
			collect(t, f.get(id, shell.After{})).want(t, c.code, c.stdout, c.stderr)
		})
	}
}

// A command that cannot be started is told of by its events, and leaves a record.
func TestSpawnFailure(t *testing.T) {
	t.Parallel()
	f := open(t, func(c *config) {
		dir := c.Dir
		c.Dir = func(cwd string) (string, error) {
			if cwd == "/outside" {
				return "", errors.New("cwd is outside of the workspace")
			}
			return dir(cwd)
		}
	})
	if err := os.WriteFile(filepath.Join(f.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r    shell.Request
		text string
	}{
		"no directory": {shell.Request{Command: "true", Cwd: "missing"}, "spawn failed: cwd missing: no such file or directory\n"},
		"a file":       {shell.Request{Command: "true", Cwd: "file"}, "spawn failed: cwd file: not a directory\n"},
		"outside":      {shell.Request{Command: "true", Cwd: "/outside"}, "spawn failed: cwd is outside of the workspace\n"},
		"too long":     {shell.Request{Command: strings.Repeat("#", 1<<20)}, "spawn failed: /bin/sh: argument list too long\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.Stdin = []byte("x")
			id, events := f.exec(c.r)
			collect(t, events).want(t, -1, "", c.text)
			collect(t, f.get(id, shell.After{})).want(t, -1, "", c.text)
			if err := f.KillExec(t.Context(), id, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadRequest(t *testing.T) {
	t.Parallel()
	f := open(t)
	for name, r := range map[string]shell.Request{
		"long id":   {ID: strings.Repeat("x", 257)},
		"id":        {ID: "\xff"},
		"id NUL":    {ID: "a\x00"},
		"command":   {Command: "a\x00b"},
		"cwd":       {Cwd: "a\x00b"},
		"stdin":     {Stdin: make([]byte, 16<<20+1)},
		"timeout":   {Timeout: timeout(-1)},
		"no name":   {Env: map[string]string{"": "x"}},
		"name":      {Env: map[string]string{"A=B": "x"}},
		"value NUL": {Env: map[string]string{"A": "\x00"}},
		"name NUL":  {Env: map[string]string{"A\x00": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := f.Exec(t.Context(), r)
			wantCode(t, err, shell.CodeInvalid)
		})
	}
	f.run(shell.Request{ID: strings.Repeat("x", 256), Command: "true"}).want(t, 0, "", "")
	if _, err := shell.New(shell.Config{}); err == nil {
		t.Error("a shell without a recorder")
	}
}

// Ids: made ones differ, a live one is refused, an ended one begins anew.
func TestIDs(t *testing.T) {
	t.Parallel()
	f := open(t)
	one, _ := f.exec(shell.Request{Command: "true"})
	two, _ := f.exec(shell.Request{Command: "true"})
	if one == two || len(one) != 36 || strings.Count(one, "-") != 4 {
		t.Error(one, two)
	}
	gate := newGate(t, f)
	_, events := f.exec(shell.Request{ID: "x", Command: "echo one; " + gate.wait()})
	next(t, events)
	_, _, err := f.Exec(t.Context(), shell.Request{ID: "x", Command: "true"})
	wantCode(t, err, shell.CodeBusy)
	if got := fmt.Sprint(err); got != "exec x is already running" {
		t.Error(got)
	}
	gate.open()
	collect(t, events)
	for i := range 200 { // once the exit is known the id is free
		_, events := f.exec(shell.Request{ID: "x", Command: fmt.Sprintf("echo %d", i)})
		collect(t, events).want(t, 0, fmt.Sprintln(i), "")
	}
	collect(t, f.get("x", shell.After{})).want(t, 0, "199\n", "")
}

// What GetExec gives, by state and point.
func TestGetExec(t *testing.T) {
	t.Parallel()
	f := open(t)
	_, err := f.GetExec(t.Context(), "unknown", shell.After{})
	wantCode(t, err, shell.CodeNotFound)
	if got := fmt.Sprint(err); got != "no exec record for id unknown" {
		t.Error(got)
	}
	gate := newGate(t, f)
	_, events := f.exec(shell.Request{ID: "x", Command: "echo 1; " + gate.wait() + "; echo 2 >&2; " + gate.wait() + "; echo 3"})
	next(t, events)
	_, err = f.GetExec(t.Context(), "x", shell.After{})
	wantCode(t, err, shell.CodeBusy)
	if got := fmt.Sprint(err); got != "exec x already has a live subscriber" {
		t.Error(got)
	}
	events.Close()
	events.Close()
	if _, err := events.Next(t.Context()); err == nil || errors.Is(err, io.EOF) {
		t.Error(err)
	}

	// Live: all, what follows, and the present.
	events = f.get("x", shell.After{})
	if e := next(t, events); e.Seq != 1 || string(e.Data) != "1\n" {
		t.Errorf("%+v", e)
	}
	gate.open()
	if e := next(t, events); e.Seq != 2 || e.Name != shell.Stderr {
		t.Errorf("%+v", e)
	}
	events.Close()
	events = f.get("x", shell.After{Seq: 1})
	if e := next(t, events); e.Seq != 2 {
		t.Errorf("%+v", e)
	}
	events.Close()
	events = f.get("x", shell.After{Tail: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := events.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	gate.open()
	if tr := collect(t, events); tr.first != 3 || tr.last != 4 || string(tr.stdout) != "3\n" || tr.code != 0 {
		t.Errorf("%+v", tr)
	}

	// Ended.
	for _, c := range []struct {
		after       shell.After
		first, last uint64
	}{
		{shell.After{}, 1, 4},
		{shell.After{Seq: 2}, 3, 4},
		{shell.After{Seq: 3}, 4, 4},
		{shell.After{Seq: 4}, 0, 0},
		{shell.After{Seq: 1 << 50}, 0, 0},
		{shell.After{Seq: 1<<64 - 1}, 0, 0},
		{shell.After{Tail: true}, 0, 0},
	} {
		if tr := collect(t, f.get("x", c.after)); tr.first != c.first || tr.last != c.last {
			t.Errorf("%+v: %d to %d", c.after, tr.first, tr.last)
		}
	}
}

// Two follow a run that has ended, at their own pace.
func TestTwoFollowers(t *testing.T) {
	t.Parallel()
	f := open(t)
	id, events := f.exec(shell.Request{Command: "seq 200000"})
	whole := collect(t, events)
	a, b := f.get(id, shell.After{}), f.get(id, shell.After{})
	var ta, tb transcript
	for range whole.events {
		ta.add(t, next(t, a))
		tb.add(t, next(t, b))
	}
	for _, tr := range []transcript{ta, tb} {
		if !bytes.Equal(tr.stdout, whole.stdout) || tr.exits != 1 {
			t.Errorf("got %d bytes of %d", len(tr.stdout), len(whole.stdout))
		}
	}
}

// A client that says it has seen more than there is gets what comes after that.
func TestAheadOfRun(t *testing.T) {
	t.Parallel()
	f := open(t)
	gate := newGate(t, f)
	_, events := f.exec(shell.Request{ID: "x", Command: "echo 1; " + gate.wait() + "; echo 2 >&2; echo 3"})
	next(t, events)
	events.Close()
	events = f.get("x", shell.After{Seq: 2})
	gate.open()
	if tr := collect(t, events); tr.first != 3 || tr.exits != 1 {
		t.Errorf("%+v", tr)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	f := open(t)
	wantCode(t, f.KillExec(t.Context(), "unknown", ""), shell.CodeNotFound)
	if err := os.WriteFile(filepath.Join(f.dir, "begun"), []byte("begun\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for signal, code := range map[string]int{"": 143, "SIGTERM": 143, "SIGKILL": 137, "SIGINT": 130, "SIGHUP": 129} {
		t.Run("signal "+signal, func(t *testing.T) {
			// The child of the shell's gets it, too, else the shell would wait for it. What is
			// printed shows that it is there: a shell that is about to execute something
			// catches SIGINT for itself.
			id, events := f.exec(shell.Request{Command: "tail -f begun; echo after"})
			next(t, events)
			wantCode(t, f.KillExec(t.Context(), id, "SIGUSR1"), shell.CodeInvalid)
			if err := f.KillExec(t.Context(), id, signal); err != nil {
				t.Fatal(err)
			}
			if tr := collect(t, events); tr.code != code || len(tr.stdout) > 0 {
				t.Errorf("%+v", tr)
			}
			if err := f.KillExec(t.Context(), id, signal); err != nil { // has ended
				t.Error(err)
			}
			wantCode(t, f.KillExec(t.Context(), id, "SIGUSR1"), shell.CodeInvalid)
		})
	}
}

func TestDispose(t *testing.T) {
	t.Parallel()
	f := open(t)
	for range 2 {
		if err := f.DisposeExec(t.Context(), "unknown"); err != nil {
			t.Error(err)
		}
	}
	f.run(shell.Request{ID: "ended", Command: "echo hi"})
	for range 2 {
		if err := f.DisposeExec(t.Context(), "ended"); err != nil {
			t.Error(err)
		}
		_, err := f.GetExec(t.Context(), "ended", shell.After{})
		wantCode(t, err, shell.CodeNotFound)
	}
	_, events := f.exec(shell.Request{ID: "live", Command: "echo $$; sleep 600"})
	pid := strings.TrimSpace(string(next(t, events).Data))
	if err := f.DisposeExec(t.Context(), "live"); err != nil {
		t.Error(err)
	}
	if tr := collect(t, events); tr.events > 0 {
		t.Errorf("a disposed run goes on: %+v", tr)
	}
	wantCode(t, f.KillExec(t.Context(), "live", ""), shell.CodeNotFound)
	f.run(shell.Request{Command: "while kill -0 " + pid + "; do :; done 2>/dev/null"}).want(t, 0, "", "")
	f.run(shell.Request{ID: "live", Command: "echo again"}).want(t, 0, "again\n", "")
}

// A run can be disposed of in any moment of its beginning.
func TestDisposeBeginning(t *testing.T) {
	t.Parallel()
	f := open(t)
	for range 20 {
		begun, disposed := make(chan struct{}), make(chan error)
		go func() { // ends after Exec has returned
			for {
				select {
				case <-begun:
					disposed <- f.DisposeExec(t.Context(), "x")
					return
				default:
					_ = f.DisposeExec(t.Context(), "x")
				}
			}
		}()
		_, events, err := f.Exec(t.Context(), shell.Request{ID: "x", Command: "sleep 600"})
		close(begun)
		if gone := <-disposed; err != nil || gone != nil {
			t.Fatal(err, gone)
		}
		collect(t, events)
		_, err = f.GetExec(t.Context(), "x", shell.After{})
		wantCode(t, err, shell.CodeNotFound)
	}
}

// late runs a command that prints and goes on until its deadline, which is later where
// it takes longer to print.
func (f *fixture) late(command string) transcript {
	f.t.Helper()
	for limit := 2 * time.Second; ; limit *= 2 {
		if tr := f.run(shell.Request{Command: command, Timeout: timeout(limit)}); len(tr.stdout) > 0 || limit > patience {
			return tr
		}
	}
}

// The deadline ends the group: politely, and by force when that does not help.
func TestTimeout(t *testing.T) {
	t.Parallel()
	open(t).late("echo a; sleep 600; echo b").want(t, 143, "a\n", "")
}

func TestTimeoutStubborn(t *testing.T) {
	t.Parallel()
	f := open(t)
	began := time.Now()
	f.late("exec 2>/dev/null; trap 'echo no' TERM; echo a; while :; do sleep 600; done").want(t, 137, "a\nno\n", "")
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("it had %v", took)
	}
}

// Descendants that hold the pipes keep no run from its end, and are not held up.
func TestBackground(t *testing.T) {
	t.Parallel()
	f := open(t)
	gate := newGate(t, f)
	done := filepath.Join(f.dir, "done")
	tr := f.run(shell.Request{Command: "(" + gate.wait() + "; seq 100000; echo end > " + done + ") & echo started"})
	tr.want(t, 0, "started\n", "")
	gate.open()
	f.run(shell.Request{Command: "until grep -q end " + done + " 2>/dev/null; do sleep 0.01; done"}).want(t, 0, "", "")
}

// Runs that are many at once.
func TestParallel(t *testing.T) {
	t.Parallel()
	f := open(t)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 4 {
				_, events, err := f.Exec(context.WithoutCancel(t.Context()), shell.Request{Command: fmt.Sprintf("seq %d; echo %d >&2; exit %d", 1000*(j+1), j, i)})
				if err != nil {
					t.Error(err)
					return
				}
				tr := collect(t, events)
				if tr.code != i || bytes.Count(tr.stdout, []byte("\n")) != 1000*(j+1) || string(tr.stderr) != fmt.Sprintln(j) {
					t.Errorf("run %d: %d events, code %d", i, tr.events, tr.code)
				}
			}
		})
	}
	wg.Wait()
}
