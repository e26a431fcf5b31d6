package sqlite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/eventlog/eventlogtest"
	"github.com/wsd-dev/wsd/protocol"
)

func TestLogStore(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T) eventlog.Store { return openCopy(t).Log() })
}

// runOf begins a run.
func runOf(log int64, id string) eventlog.Change {
	return eventlog.Change{Log: log, Info: &eventlog.Info{Origin: eventlog.OriginRun, ID: id}, At: time.Now()}
}

func printed(seq uint64, stream, text string) eventlog.Event {
	return eventlog.Event{Seq: seq, Kind: eventlog.KindOutput, Stream: stream, Data: []byte(text)}
}

func exited(seq uint64, code int) eventlog.Event {
	return eventlog.Event{Seq: seq, Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: code}}
}

// What must not be among the rows is found.
func TestLogDamage(t *testing.T) {
	for says, damage := range map[string]string{
		"which is not there":         "INSERT INTO log_event VALUES (77 << 32 | 1, 0, 0, x'00')",
		"and ends with":              "INSERT INTO log_event VALUES (1 << 32 | 9, 0, 0, x'00')",
		"events from":                "DELETE FROM log_event WHERE key & 0xffff = 1",
		"does not end with its exit": "UPDATE log_event SET kind = 0 WHERE kind = 2",
		"half an end":                "UPDATE log SET exit = NULL",
	} {
		t.Run(says, func(t *testing.T) {
			db, err := Open(t.Context(), Config{Path: emptyCopy(t), Durability: none})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			c := runOf(1, "x")
			c.Events, c.Ended, c.Bytes = []eventlog.Event{printed(1, protocol.StreamStdout, "x"), exited(2, 0)}, true, 1
			if err := errors.Join(db.Log().Write(t.Context(), []eventlog.Change{c}), db.Check(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := db.update(t.Context(), func(c *conn) error { return c.exec(damage) }); err != nil {
				t.Fatal(err)
			}
			if err := db.Check(t.Context()); !errors.Is(err, sqlitefile.ErrDamaged) || !strings.Contains(err.Error(), says) {
				t.Error(err)
			}
		})
	}
}

// A store with runs and logs of processes apart is brought over: all of them are as they
// were, those of processes behind those of runs. What was live then is ended.
func TestLogsAreBroughtOver(t *testing.T) {
	db := open(t, older(t, 10, `
		INSERT INTO run (run, id, command, cwd, started_ms, evicted, exited_ms, code, last, bytes) VALUES
			(3, 'done', 'echo "hi"', '/w', 1000, 0, 2000, 7, 3, 5), (5, 'live', '', '', 3000, 1, NULL, NULL, NULL, 0);
		INSERT INTO run_event VALUES (3 << 32 | 1, 1500, 0, x'68690a'), (3 << 32 | 2, 1600, 1, x'6f6f'), (3 << 32 | 3, 2000, 2, x'07000000'),
			(5 << 32 | 8, 3500, 0, x'6e6577');
		INSERT INTO process_log (log, process_id, session_id, pid, argv, cwd, tty, sandbox, started_ms, next, exit, ended_ms, bytes) VALUES
			(2, 'p', 's', 9, '["a","b"]', 'file:///', 0, 'none', 4000, 4, '{"Code":143,"Signal":"SIGTERM","SandboxDenied":false,"TimedOut":true,"Limit":"cpu"}', 5000, 2),
			(4, 'tty', 's', 10, '["sh"]', 'file:///', 1, 'none', 6000, 2, NULL, NULL, 1);
		INSERT INTO process_output VALUES (2 << 32 | 1, 'stdout', x'78'), (2 << 32 | 2, 'stderr', x'79'), (4 << 32 | 1, 'pty', x'7a');`))
	log, at := db.Log(), time.UnixMilli(7000)
	if ended, err := log.Recover(t.Context(), at); !slices.Equal(ended, []int64{5, 9}) || err != nil {
		t.Error(ended, err)
	}
	run := func(id, command, cwd string, started int64) eventlog.Info {
		return eventlog.Info{Origin: eventlog.OriginRun, ID: id, Argv: []string{"/bin/sh", "-c", command}, Cwd: cwd, Started: time.UnixMilli(started)}
	}
	process := func(id string, pid int, tty bool, started int64, argv ...string) eventlog.Info {
		return eventlog.Info{Origin: eventlog.OriginSession, ID: id, SessionID: "s", PID: pid, Argv: argv, Cwd: "file:///", TTY: tty, Sandbox: "none", Started: time.UnixMilli(started)}
	}
	for _, want := range []struct {
		record eventlog.Record
		events []eventlog.Event
	}{
		{
			eventlog.Record{Log: 3, Info: run("done", `echo "hi"`, "/w", 1000), Exit: &eventlog.Exit{Code: 7}, Ended: true, End: 1, At: time.UnixMilli(2000), Last: 3, Bytes: 5, Printed: 5},
			[]eventlog.Event{printed(1, "stdout", "hi\n"), printed(2, "stderr", "oo"), exited(3, 7)},
		},
		{
			eventlog.Record{Log: 5, Info: run("live", "", "", 3000), Evicted: true, Exit: &eventlog.Exit{Code: -1}, Ended: true, End: 3, At: at, Last: 9, Bytes: 3, Printed: 3},
			[]eventlog.Event{printed(8, "stdout", "new"), exited(9, -1)},
		},
		{
			eventlog.Record{Log: 7, Info: process("p", 9, false, 4000, "a", "b"), Exit: &eventlog.Exit{Code: 143, Signal: "SIGTERM", TimedOut: true, Limit: "cpu"}, Ended: true, End: 2, At: time.UnixMilli(5000), Last: 3, Bytes: 2, Printed: 2},
			[]eventlog.Event{printed(1, "stdout", "x"), printed(2, "stderr", "y")},
		},
		{
			eventlog.Record{Log: 9, Info: process("tty", 10, true, 6000, "sh"), Ended: true, End: 4, At: at, Last: 1, Bytes: 1, Printed: 1},
			[]eventlog.Event{printed(1, "pty", "z")},
		},
	} {
		found, err := log.List(t.Context(), eventlog.Query{Origin: want.record.Origin, ID: &want.record.ID, Limit: 10})
		if diff := cmp.Diff([]eventlog.Record{want.record}, found); diff != "" || err != nil {
			t.Errorf("%v, record (-want +got):\n%s", err, diff)
		}
		events, err := log.Read(t.Context(), want.record.Log, 0, -1, -1)
		if diff := cmp.Diff(want.events, events, cmpopts.IgnoreUnexported(eventlog.Event{})); diff != "" || err != nil {
			t.Errorf("%v, events of %s (-want +got):\n%s", err, want.record.ID, diff)
		}
	}
}

// After Close everything fails, and nothing waits.
func TestLogClosed(t *testing.T) {
	db, err := Open(t.Context(), Config{Path: emptyCopy(t), Durability: none})
	if err != nil {
		t.Fatal(err)
	}
	s := db.Log()
	if err := s.Write(t.Context(), []eventlog.Change{runOf(1, "x")}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, list := s.List(t.Context(), eventlog.Query{Limit: 1})
	_, read := s.Read(t.Context(), 1, 0, 1, 1)
	for _, err := range []error{list, read, s.Write(t.Context(), []eventlog.Change{runOf(2, "y")})} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

// Several servers share the log of commands: numbers are given once, and a command is
// ended only when the server that began it has gone.
func TestLogShared(t *testing.T) {
	path := temporary(t)
	shared := func() *DB {
		t.Helper()
		db, err := Open(t.Context(), Config{Path: path, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Log().Recover(t.Context(), time.UnixMilli(5000)); err != nil {
			t.Fatal(err)
		}
		return db
	}
	begin := func(db *DB) int64 {
		t.Helper()
		changes := []eventlog.Change{{Info: &eventlog.Info{Origin: eventlog.OriginSession, ID: "x", Argv: []string{"a"}}, At: time.UnixMilli(1000)}}
		if err := db.Log().Write(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		return changes[0].Log
	}
	wantEnded := func(db *DB, want ...int64) {
		t.Helper()
		ended, err := db.Log().Recover(t.Context(), time.UnixMilli(9000))
		if diff := cmp.Diff(want, ended, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v, ended (-want +got):\n%s", err, diff)
		}
	}
	a, b, c := shared(), shared(), shared()
	defer a.Close()
	defer c.Close()
	var numbers []int64
	for range 3 {
		numbers = append(numbers, begin(a), begin(b), begin(c))
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, numbers); diff != "" {
		t.Error(diff)
	}
	wantEnded(a)
	wantEnded(b)
	if err := b.Close(); err != nil { // with commands that have no end, as after a kill
		t.Fatal(err)
	}
	wantEnded(c, 2, 5, 8)
	wantEnded(a)
	next := shared()
	defer next.Close()
	if n := begin(next); n != 10 || next.lock.place != 1 {
		t.Errorf("command %d, place %d", n, next.lock.place)
	}
	wantEnded(a)
	if err := errors.Join(a.Close(), c.Close(), next.Close()); err != nil {
		t.Fatal(err)
	}
	last := shared() // ends what is left
	defer last.Close()
	wantEnded(last)
	if list, err := last.Log().List(t.Context(), eventlog.Query{Live: true, Limit: 10}); len(list) > 0 || err != nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// As many servers write at once as like: no number is given twice, nothing is lost.
func TestLogSharedAtOnce(t *testing.T) {
	path := temporary(t)
	const servers, commands = 5, 20
	var all sync.Map
	var wg sync.WaitGroup
	for range servers {
		wg.Go(func() {
			db, err := Open(context.WithoutCancel(t.Context()), Config{Path: path, Shared: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			for range commands {
				changes := []eventlog.Change{{Info: &eventlog.Info{Origin: eventlog.OriginSession, ID: "x", Argv: []string{"a"}}, Ended: true, At: time.UnixMilli(1000)}}
				if err := db.Log().Write(context.WithoutCancel(t.Context()), changes); err != nil {
					t.Error(err)
				}
				if _, twice := all.LoadOrStore(changes[0].Log, true); twice {
					t.Errorf("number %d is given twice", changes[0].Log)
				}
			}
		})
	}
	wg.Wait()
	db, err := Open(t.Context(), Config{Path: path, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if list, err := db.Log().List(t.Context(), eventlog.Query{Limit: 1000}); len(list) != servers*commands || err != nil {
		t.Errorf("%d commands, %v", len(list), err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
