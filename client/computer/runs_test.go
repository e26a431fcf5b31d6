package computer

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
)

// A result is what events tell of a run.
type result struct {
	stdout, stderr strings.Builder
	code           int
	seqs           []uint64
}

// follow reads the events of a run to their end.
func follow(t *testing.T, events shell.Events) *result {
	t.Helper()
	defer events.Close()
	r := &result{code: -999}
	for {
		e, err := events.Next(within(t))
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		r.seqs = append(r.seqs, e.Seq)
		switch e.Name {
		case shell.Stdout:
			r.stdout.Write(e.Data)
		case shell.Stderr:
			r.stderr.Write(e.Data)
		case shell.Exit:
			r.code = e.Code
		}
	}
}

func TestExec(t *testing.T) {
	c := newWorld(t).client(t)
	short := time.Minute
	id, events, err := c.Exec(within(t), shell.Request{
		Command: `read x; echo "$A $x"; echo err >&2; exit 3`, ID: "mine",
		Env: map[string]string{"A": "ä"}, Stdin: []byte("in\n"), Timeout: &short,
	})
	if err != nil || id != "mine" {
		t.Fatalf("%q, %v", id, err)
	}
	r := follow(t, events)
	if r.stdout.String() != "ä in\n" || r.stderr.String() != "err\n" || r.code != 3 {
		t.Errorf("%q, %q, %d", &r.stdout, &r.stderr, r.code)
	}
	again, err := c.GetExec(within(t), "mine", shell.After{Seq: r.seqs[0]})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.seqs[1:], follow(t, again).seqs); diff != "" {
		t.Error(diff)
	}
	tail, err := c.GetExec(within(t), "mine", shell.After{Tail: true})
	if err != nil {
		t.Fatal(err)
	}
	if seqs := follow(t, tail).seqs; seqs != nil {
		t.Errorf("the tail is %v", seqs)
	}
	if err := c.DisposeExec(within(t), "mine"); err != nil {
		t.Error(err)
	}
	_, err = c.GetExec(within(t), "mine", shell.After{})
	if e, ok := errors.AsType[*protocol.NamedError](err); !ok || e.Code != "ENOENT" {
		t.Errorf("got %v", err)
	}
	if err := c.KillExec(within(t), "mine", ""); !errors.Is(err, &protocol.NamedError{Code: "ENOENT"}) {
		t.Errorf("got %v", err)
	}
}

// More output than any window, taken slowly, arrives whole; then comes the exit.
func TestMuchOutput(t *testing.T) {
	c := newWorld(t).client(t)
	_, events, err := c.Exec(within(t), shell.Request{Command: "head -c 3145728 /dev/zero; echo end"})
	if err != nil {
		t.Fatal(err)
	}
	r := follow(t, events)
	if r.stdout.Len() != 3<<20+4 || !strings.HasSuffix(r.stdout.String(), "end\n") || r.code != 0 {
		t.Errorf("%d bytes, exit %d", r.stdout.Len(), r.code)
	}
	for i, seq := range r.seqs {
		if seq != uint64(i+1) {
			t.Fatalf("event %d has the number %d", i, seq)
		}
	}
}

func TestKillExec(t *testing.T) {
	c := newWorld(t).client(t)
	id, events, err := c.Exec(within(t), shell.Request{Command: "echo up; exec sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := events.Next(within(t)); err != nil || string(e.Data) != "up\n" {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := c.GetExec(within(t), id, shell.After{}); !errors.Is(err, &protocol.NamedError{Code: "EEXEC_BUSY"}) {
		t.Errorf("a second follower: %v", err)
	}
	if err := c.KillExec(within(t), id, "SIGNOTHING"); !errors.Is(err, &protocol.NamedError{Code: "EINVAL"}) {
		t.Errorf("no signal: %v", err)
	}
	if err := c.KillExec(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	if r := follow(t, events); r.code != 143 {
		t.Errorf("exit %d", r.code)
	}
}

// What is lost with the server's session says so; a new session goes on with the run.
func TestLostSession(t *testing.T) {
	w := newWorld(t)
	c, cut := w.cuttable(t)
	id, events, err := c.Exec(within(t), shell.Request{Command: "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two", ID: "run"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := events.Next(within(t))
	if err != nil || string(first.Data) != "one\n" {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := cut(); err != nil {
		t.Fatal(err)
	}
	if _, err := events.Next(within(t)); !errors.Is(err, ErrLost) {
		t.Errorf("the run: %v", err)
	}
	<-c.Done()
	if _, err := c.Watermarks(within(t), false); !errors.Is(err, ErrLost) || c.Err() == nil {
		t.Errorf("a call: %v, %v", err, c.Err())
	}
	next := w.client(t)
	again, err := next.GetExec(within(t), id, shell.After{Seq: first.Seq})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := follow(t, again); r.stdout.String() != "two\n" || r.code != 0 {
		t.Errorf("%q, %d", &r.stdout, r.code)
	}
}
