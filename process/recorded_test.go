package process_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/eventlog/eventlogtest"
	"github.com/wsd-dev/wsd/protocol"
)

func openRecorder(t testing.TB, store eventlog.Store) *eventlog.Recorder {
	t.Helper()
	rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
	return rec
}

// silent is a client that hears nothing.
type silent struct{}

func (silent) Notify(context.Context, string, any) error { return nil }

// serve makes a Service, and what reads from it.
func serve(rec *eventlog.Recorder, session string) (*process.Service, func(id string) (*protocol.ReadResult, error)) {
	s := process.NewService(silent{}, process.Config{SessionID: session, Recorder: rec, Durable: true})
	return s, func(id string) (*protocol.ReadResult, error) {
		return process.ReadOn(s, &protocol.ReadParams{ProcessID: id})
	}
}

// A process can be read when its session has ended, and when its server has died: then
// with what it had printed, and that it was interrupted.
func TestReadRecorded(t *testing.T) {
	store := new(eventlogtest.Memory)
	rec := openRecorder(t, store)
	s, read := serve(rec, "s")
	dir := "file://" + t.TempDir()
	begin := func(s *process.Service, id, command string) {
		t.Helper()
		if _, err := process.StartOn(s, &protocol.StartParams{ProcessID: id, Argv: []string{"/bin/sh", "-c", command}, Cwd: dir}); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(id string, until func(*protocol.ReadResult) bool) {
		t.Helper()
		for begin := time.Now(); ; {
			r, err := read(id)
			if err != nil {
				t.Fatal(err)
			}
			if until(r) {
				return
			}
			if time.Since(begin) > patience {
				t.Fatalf("%s: %+v", id, r)
			}
		}
	}
	begin(s, "ended", "echo hi; exit 3")
	begin(s, "running", "echo begun; sleep 600")
	wait("ended", func(r *protocol.ReadResult) bool { return r.Closed })
	for begin := time.Now(); ; { // the second log: its output is written a few milliseconds later
		events, err := store.Read(t.Context(), 2, 0, -1, -1)
		if err != nil || time.Since(begin) > patience {
			t.Fatal("no output is written", err)
		}
		if len(events) > 0 {
			break
		}
	}

	// Another session of the same server: what runs is not its own.
	second, other := serve(rec, "other")
	defer second.Close()
	check := func(read func(string) (*protocol.ReadResult, error)) {
		t.Helper()
		r, err := read("ended")
		if err != nil || !r.Exited || !r.Closed || r.ExitCode == nil || *r.ExitCode != 3 || len(r.Chunks) != 1 || !bytes.Equal(r.Chunks[0].Chunk, []byte("hi\n")) || r.NextSeq != 4 || r.Failure != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := read("unknown"); err == nil {
			t.Error("an unknown process is read")
		}
	}
	for begin := time.Now(); ; { // its end is written a few milliseconds later
		if _, err := other("ended"); err == nil || time.Since(begin) > patience {
			break
		}
	}
	check(other)
	if r, err := other("running"); err == nil {
		t.Errorf("a running one of another session: %+v", r)
	}

	// The server dies: nothing more is written.
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, read = serve(openRecorder(t, store), "s")
	defer s.Close()
	check(read)
	r, err := read("running")
	if err != nil || !r.Exited || !r.Closed || r.ExitCode != nil || r.Failure == nil || len(r.Chunks) != 1 || r.NextSeq != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	list, err := process.ListOn(s, "archive")
	if err != nil || len(list.Processes) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if p := list.Processes[0]; p.ProcessID != "ended" || p.ExitCode == nil || !p.Closed || p.Argv[2] != "echo hi; exit 3" || p.SessionID != "s" {
		t.Errorf("%+v", p)
	}
	if p := list.Processes[1]; p.ProcessID != "running" || p.ExitCode != nil || !p.Exited {
		t.Errorf("%+v", p)
	}
	// The id is free, and its process is read from then on.
	begin(s, "ended", "exit 4")
	wait("ended", func(r *protocol.ReadResult) bool { return r.Closed && *r.ExitCode == 4 })
}

// TestTerminalOutlivesStdio: a process that closes its terminal is not hung up.
func TestTerminalOutlivesStdio(t *testing.T) {
	s := process.NewService(silent{}, process.Config{})
	defer s.Close()
	params := &protocol.StartParams{ProcessID: "p", Argv: []string{"/bin/sh", "-c", "exec <&- >&- 2>&-; /bin/sleep 0.3; exit 7"}, Cwd: "file:///", TTY: true}
	if _, err := process.StartOn(s, params); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; {
		r, err := process.ReadOn(s, &protocol.ReadParams{ProcessID: "p"})
		if err != nil || time.Since(begin) > patience {
			t.Fatal(r, err)
		}
		if r.Exited {
			if *r.ExitCode != 7 {
				t.Errorf("%+v", r)
			}
			return
		}
	}
}
