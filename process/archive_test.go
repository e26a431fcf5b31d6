package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/logtest"
	"github.com/wsd-dev/wsd/protocol"
)

func TestMemoryArchive(t *testing.T) {
	logtest.RunArchive(t, func(*testing.T) process.ArchiveStore { return new(logtest.Archive) })
}

func openArchive(t testing.TB, store process.ArchiveStore) *process.Archive {
	t.Helper()
	a, err := process.OpenArchive(t.Context(), process.ArchiveConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// An archived log is a LogStore like the one in memory, described or not.
func TestArchivedLog(t *testing.T) {
	for _, described := range []bool{false, true} {
		t.Run(fmt.Sprint("described ", described), func(t *testing.T) {
			a := openArchive(t, new(logtest.Archive))
			logtest.Run(t, func(limit process.Retention) (process.LogStore, error) {
				return process.OpenArchived(a, limit, described), nil
			})
		})
	}
}

func add(t *testing.T, log process.LogStore, events ...process.Event) {
	t.Helper()
	for _, e := range events {
		if _, err := log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

func printed(text string) process.Event {
	return process.Event{Kind: process.KindOutput, Stream: protocol.StreamStdout, Data: []byte(text)}
}

// Once an exit is in the log, it and all output before it are in the store, even if nobody
// closes anything.
func TestArchivedExit(t *testing.T) {
	store := new(logtest.Archive)
	a := openArchive(t, store)
	for i := range 50 {
		id := fmt.Sprint(i)
		log := process.OpenArchivedAs(a, process.Retention{}, id)
		add(t, log, printed("one"), printed("two"), process.Event{Kind: process.KindExited, Exit: &process.Exit{Code: i}})
		if _, err := store.Recover(t.Context(), time.Now()); err != nil { // as the next server does
			t.Fatal(err)
		}
		l, err := store.Find(t.Context(), id)
		if err != nil || l.Exit == nil || l.Exit.Code != i || l.Info.NextSeq != 4 {
			t.Fatalf("%+v, %v", l, err)
		}
		if events, err := store.Read(t.Context(), l.Log, 0, -1); err != nil || len(events) != 2 {
			t.Fatal(events, err)
		}
	}
}

// heldStore says when it is to write, and does not before it is let go.
func heldStore() (store *logtest.Archive, held, letGo chan struct{}) {
	held, letGo = make(chan struct{}, 100), make(chan struct{})
	return &logtest.Archive{Before: func() error {
		held <- struct{}{}
		<-letGo
		return nil
	}}, held, letGo
}

// The store keeps the newest output, as the log does; a slow store holds nobody up and
// costs no more memory than what is kept.
func TestArchivedRetention(t *testing.T) {
	store, held, hold := heldStore()
	a := openArchive(t, store)
	log := process.OpenArchivedAs(a, process.Retention{Bytes: 1000, Chunks: 1000}, "p")
	add(t, log, printed("first"))
	<-held // the store is busy
	for i := range 5000 {
		add(t, log, printed(fmt.Sprintf("%010d", i)))
	}
	if n := process.PendingBytes(log); n != 1000 {
		t.Errorf("%d bytes wait", n)
	}
	close(hold)
	add(t, log, process.Event{Kind: process.KindExited, Exit: &process.Exit{}}, process.Event{Kind: process.KindClosed})
	if err := errors.Join(log.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	l, err := store.Find(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	events, err := store.Read(t.Context(), l.Log, 0, -1)
	if err != nil || len(events) != 100 || string(events[99].Data) != "0000004999" || events[99].Seq != 5001 || l.Info.NextSeq != 5004 {
		t.Errorf("%d events, next %d, %v", len(events), l.Info.NextSeq, err)
	}
	// That is 1,000 bytes, and counted as such.
	for _, bytes := range []int64{1000, 999} {
		want := int(bytes / 1000)
		if err := store.Sweep(t.Context(), process.ArchiveKeep{Logs: 10, Bytes: bytes}); err != nil {
			t.Error(err)
		}
		if list, err := store.List(t.Context(), 10); len(list) != want || err != nil {
			t.Errorf("%d logs are within %d bytes, %v", len(list), bytes, err)
		}
	}
}

// Close writes what came before it, whatever comes while it waits for a slow store.
func TestArchiveCloses(t *testing.T) {
	store, held, hold := heldStore()
	a := openArchive(t, store)
	process.OpenArchivedAs(a, process.Retention{}, "first")
	<-held // the store is busy
	log := process.OpenArchivedAs(a, process.Retention{}, "p")
	add(t, log, printed("before"))
	closed := make(chan error)
	go func() { closed <- a.Close() }()
	for !process.Closing(a) {
	}
	add(t, log, printed("after"), process.Event{Kind: process.KindExited, Exit: &process.Exit{}})
	close(hold)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := store.Recover(t.Context(), time.Now()); err != nil { // as the next server does
		t.Fatal(err)
	}
	l, err := store.Find(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	events, err := store.Read(t.Context(), l.Log, 0, -1)
	if err != nil || len(events) == 0 || string(events[0].Data) != "before" {
		t.Errorf("%+v, %v", events, err)
	}
}

// A store that cannot be written costs the archive, not the process.
func TestArchiveFailure(t *testing.T) {
	store := &logtest.Archive{Before: func() error { return errors.New("the disk is full") }}
	a := openArchive(t, store)
	log := process.OpenArchivedAs(a, process.Retention{}, "p")
	add(t, log, printed("x"), process.Event{Kind: process.KindExited, Exit: &process.Exit{}}, printed("y"), process.Event{Kind: process.KindClosed})
	if page, err := log.Read(nil, 0, -1); err != nil || len(page.Events) != 4 || !page.Closed {
		t.Errorf("%+v, %v", page, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	add(t, process.OpenArchivedAs(a, process.Retention{}, "q"), process.Event{Kind: process.KindExited, Exit: &process.Exit{}})
}

// silent is a client that hears nothing.
type silent struct{}

func (silent) Notify(context.Context, string, any) error { return nil }

// serve makes a Service, and what reads from it.
func serve(a *process.Archive, session string) (*process.Service, func(id string) (*protocol.ReadResult, error)) {
	s := process.NewService(silent{}, process.Config{SessionID: session, Archive: a})
	return s, func(id string) (*protocol.ReadResult, error) {
		return process.ReadOn(s, &protocol.ReadParams{ProcessID: id})
	}
}

// A process can be read when its session has ended, and when its server has died: then
// with what it had printed, and that it was interrupted.
func TestReadArchived(t *testing.T) {
	store := new(logtest.Archive)
	a := openArchive(t, store)
	s, read := serve(a, "s")
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
		events, err := store.Read(t.Context(), 2, 0, -1)
		if err != nil || time.Since(begin) > patience {
			t.Fatal("no output is written", err)
		}
		if len(events) > 0 {
			break
		}
	}

	// Another session of the same server: what runs is not its own.
	second, other := serve(a, "other")
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
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, read = serve(openArchive(t, store), "s")
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
