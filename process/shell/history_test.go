package shell_test

import (
	"slices"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
)

// No run has the empty id: nothing is read, killed or forgotten for it.
func TestEmptyID(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.run(shell.Request{ID: "x", Command: "echo hi"}).want(t, 0, "hi\n", "")
	_, err := f.GetExec(t.Context(), "", shell.After{})
	wantCode(t, err, shell.CodeNotFound)
	wantCode(t, f.KillExec(t.Context(), "", ""), shell.CodeNotFound)
	if err := f.DisposeExec(t.Context(), ""); err != nil {
		t.Error(err)
	}
	events, err := f.GetExec(t.Context(), "x", shell.After{})
	if err != nil {
		t.Fatal(err)
	}
	if tr := collect(t, events); string(tr.stdout) != "hi\n" {
		t.Errorf("%q", tr.stdout)
	}
}

// A run that is disposed of while it is live ends in the history as it did: killed, with
// all that it had printed. Its end is passed on, like that of any other.
func TestDisposedInHistory(t *testing.T) {
	t.Parallel()
	ended := make(chan eventlog.Record, 2)
	f := open(t, func(c *config) { c.Ended = func(rec *eventlog.Record) { ended <- *rec } })
	_, events := f.exec(shell.Request{ID: "x", Command: "echo 12345; exec sleep 1000"})
	if e, err := events.Next(within(t)); err != nil || string(e.Data) != "12345\n" {
		t.Fatal(e, err)
	}
	if err := f.DisposeExec(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	list, err := f.store.List(t.Context(), eventlog.Query{Hidden: true, Limit: 9})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for _, r := range []eventlog.Record{list[0], <-ended} {
		if r.Log != 1 || !r.Ended || r.Exit == nil || r.Exit.Code != 137 || r.Exit.Signal != "SIGKILL" || r.Printed != 6 || r.Bytes != 0 || !slices.Equal(r.Argv[1:], []string{"-c", "echo 12345; exec sleep 1000"}) {
			t.Errorf("%+v", r)
		}
	}
	f.run(shell.Request{ID: "y", Command: "exit 4"}).want(t, 4, "", "")
	select {
	case r := <-ended:
		if r.Log != 2 || r.Exit.Code != 4 {
			t.Errorf("%+v", r)
		}
	case <-time.After(patience):
		t.Error("nothing is passed on")
	}
}
