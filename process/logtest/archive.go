package logtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

// start is when the suite's processes begin.
var start = time.UnixMilli(1_800_000_000_123)

func info(id string) *protocol.ProcessInfo {
	return &protocol.ProcessInfo{
		SessionID: "s", ProcessID: id, PID: 7, Argv: []string{"a", "b\x01"}, Cwd: "file:///", TTY: true,
		StartedAtMs: start.UnixMilli(), SandboxType: "none",
	}
}

// RunArchive tests the stores that open returns: empty ones.
func RunArchive(t *testing.T, open func(t *testing.T) process.ArchiveStore) {
	for name, test := range map[string]func(*testing.T, process.ArchiveStore){
		"Life": testArchiveLife, "Interrupted": testArchiveInterrupted, "Newest": testArchiveNewest, "Sweep": testArchiveSweep,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func write(t *testing.T, s process.ArchiveStore, changes ...process.LogChange) {
	t.Helper()
	for i := range changes {
		if changes[i].At.IsZero() {
			changes[i].At = start
		}
	}
	if err := s.Write(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

func chunk(seq uint64, data string) process.Event {
	return process.Event{Seq: seq, Kind: process.KindOutput, Stream: "stdout", Data: []byte(data)}
}

func wantChunks(t *testing.T, s process.ArchiveStore, log int64, after uint64, maxBytes int, wanted ...process.Event) {
	t.Helper()
	got, err := s.Read(t.Context(), log, after, maxBytes)
	if diff := gocmp.Diff(wanted, got, events); diff != "" || err != nil {
		t.Errorf("%v, events (-want +got):\n%s", err, diff)
	}
}

func wantNoLog(t *testing.T, s process.ArchiveStore, id string) {
	t.Helper()
	if l, err := s.Find(t.Context(), id); !errors.Is(err, process.ErrNoLog) {
		t.Errorf("%s is %+v, %v", id, l, err)
	}
}

func testArchiveLife(t *testing.T, s process.ArchiveStore) {
	wantNoLog(t, s, "p")
	write(t, s, process.LogChange{Log: 5, Info: info("p")})
	wantNoLog(t, s, "p") // it is being written
	write(t, s,
		process.LogChange{Log: 5, Events: []process.Event{chunk(1, "aaaa"), {Seq: 2, Kind: process.KindOutput, Stream: "stderr", Data: []byte{0, 0xff}}}},
		process.LogChange{Log: 6, Info: info("q"), Events: []process.Event{chunk(1, "other")}})
	wantChunks(t, s, 5, 0, 4, chunk(1, "aaaa"))
	exit := &process.Exit{Code: 143, Signal: "SIGTERM", SandboxDenied: true, TimedOut: true, Limit: "cpu"}
	write(t, s,
		process.LogChange{Log: 5, Events: []process.Event{chunk(3, "c"), {Seq: 4, Kind: process.KindExited, Exit: exit}}, Oldest: 2},
		process.LogChange{Log: 5, Events: []process.Event{chunk(5, "late"), {Seq: 6, Kind: process.KindClosed}}, Oldest: 2, Ended: true})
	second := process.Event{Seq: 2, Kind: process.KindOutput, Stream: "stderr", Data: []byte{0, 0xff}}
	wantChunks(t, s, 5, 0, -1, second, chunk(3, "c"), chunk(5, "late"))
	wantChunks(t, s, 5, 0, 0, second)
	wantChunks(t, s, 5, 2, 5, chunk(3, "c"), chunk(5, "late"))
	wantChunks(t, s, 5, 5, -1)
	wantChunks(t, s, 5, 1<<40, -1)
	l, err := s.Find(t.Context(), "p")
	want := process.ArchivedLog{Log: 5, Info: *info("p"), Exit: exit}
	want.Info.NextSeq = 7
	if diff := gocmp.Diff(want, l); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	wantNoLog(t, s, "q")
	// All of one, at once.
	write(t, s, process.LogChange{
		Log: 7, Info: info("short"), Ended: true,
		Events: []process.Event{chunk(1, "hi"), {Seq: 2, Kind: process.KindExited, Exit: &process.Exit{}}, {Seq: 3, Kind: process.KindClosed}},
	})
	if l, err := s.Find(t.Context(), "short"); err != nil || l.Exit == nil || l.Info.NextSeq != 4 {
		t.Errorf("%+v, %v", l, err)
	}
}

func testArchiveInterrupted(t *testing.T, s process.ArchiveStore) {
	write(t, s, process.LogChange{Log: 3, Info: info("p"), Events: []process.Event{chunk(1, "a"), chunk(2, "b")}},
		process.LogChange{Log: 4, Info: info("silent")})
	for range 2 {
		if last, err := s.Recover(t.Context(), start.Add(time.Minute)); last != 4 || err != nil {
			t.Error(last, err)
		}
		l, err := s.Find(t.Context(), "p")
		if err != nil || l.Exit != nil || l.Info.NextSeq != 3 {
			t.Errorf("%+v, %v", l, err)
		}
		wantChunks(t, s, l.Log, 0, -1, chunk(1, "a"), chunk(2, "b"))
		if l, err := s.Find(t.Context(), "silent"); err != nil || l.Exit != nil || l.Info.NextSeq != 1 {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

func testArchiveNewest(t *testing.T, s process.ArchiveStore) {
	for log := int64(1); log <= 5; log++ {
		write(t, s, process.LogChange{Log: log, Info: info("p"), Ended: log != 5})
	}
	if l, err := s.Find(t.Context(), "p"); l.Log != 4 || err != nil {
		t.Errorf("%+v, %v", l, err)
	}
	list, err := s.List(t.Context(), 3)
	if len(list) != 3 || list[0].Log != 4 || list[2].Log != 2 || err != nil {
		t.Errorf("%+v, %v", list, err)
	}
}

func testArchiveSweep(t *testing.T, s process.ArchiveStore) {
	// The ids are the logs' ages in seconds.
	const logs = 250
	for i := range logs {
		age := logs - 1 - i
		write(t, s, process.LogChange{
			Log: int64(i + 1), Info: info(fmt.Sprint(age)), Events: []process.Event{chunk(1, "x")},
			Ended: true, At: start.Add(-time.Duration(age) * time.Second), Bytes: 10,
		})
	}
	write(t, s, process.LogChange{Log: logs + 1, Info: info("live"), Events: []process.Event{chunk(1, "x")}})
	for _, c := range []struct {
		keep process.ArchiveKeep
		left int
	}{
		{process.ArchiveKeep{Logs: 1000, Bytes: 1 << 30}, logs},
		{process.ArchiveKeep{Logs: 1000, Bytes: 1 << 30, Since: start.Add(-219 * time.Second)}, 220},
		{process.ArchiveKeep{Logs: 100, Bytes: 1 << 30}, 100},
		{process.ArchiveKeep{Logs: 100, Bytes: 209}, 20},
		{process.ArchiveKeep{Logs: 100, Bytes: 209, Since: start.Add(time.Second)}, 0},
	} {
		if err := s.Sweep(t.Context(), c.keep); err != nil {
			t.Fatal(err)
		}
		list, err := s.List(t.Context(), 1000)
		if len(list) != c.left || err != nil || c.left > 0 && list[len(list)-1].Info.ProcessID != fmt.Sprint(c.left-1) {
			t.Errorf("%d logs are left, want %d; %v", len(list), c.left, err)
		}
	}
	wantChunks(t, s, 1, 0, -1)
	wantChunks(t, s, logs+1, 0, -1, chunk(1, "x"))
}

// Archive is a process.ArchiveStore in memory, which tests can have fail. The zero value is
// ready.
type Archive struct {
	mu   sync.Mutex
	logs map[int64]*archived

	// Before, if set, is called before each Write, outside of locks; its error is that of
	// the Write.
	Before func() error
}

type archived struct {
	process.ArchivedLog
	output []process.Event
	bytes  int64
	at     time.Time
	ended  bool
}

// Write implements process.ArchiveStore.
func (a *Archive) Write(_ context.Context, changes []process.LogChange) error {
	if a.Before != nil {
		if err := a.Before(); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		if c.Info != nil {
			if a.logs == nil {
				a.logs = make(map[int64]*archived)
			}
			a.logs[c.Log] = &archived{ArchivedLog: process.ArchivedLog{Log: c.Log, Info: *c.Info}}
			a.logs[c.Log].Info.NextSeq = 1
		}
		l := a.logs[c.Log]
		for _, e := range c.Events {
			l.Info.NextSeq = max(l.Info.NextSeq, e.Seq+1)
			switch e.Kind {
			case process.KindOutput:
				l.output = append(l.output, process.Event{Seq: e.Seq, Kind: e.Kind, Stream: e.Stream, Data: slices.Clone(e.Data)})
			case process.KindExited:
				l.Exit = e.Exit
			default:
			}
		}
		l.output = slices.DeleteFunc(l.output, func(e process.Event) bool { return e.Seq < c.Oldest })
		l.ended, l.at, l.bytes = c.Ended, c.At, c.Bytes
	}
	return nil
}

// Find implements process.ArchiveStore.
func (a *Archive) Find(ctx context.Context, id string) (process.ArchivedLog, error) {
	list, err := a.List(ctx, 1<<30)
	for _, l := range list {
		if l.Info.ProcessID == id {
			return l, err
		}
	}
	return process.ArchivedLog{}, process.ErrNoLog
}

// List implements process.ArchiveStore.
func (a *Archive) List(_ context.Context, limit int) ([]process.ArchivedLog, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []process.ArchivedLog
	for _, l := range a.logs {
		if l.ended {
			list = append(list, l.ArchivedLog)
		}
	}
	slices.SortFunc(list, func(x, y process.ArchivedLog) int { return cmp.Compare(y.Log, x.Log) })
	return list[:min(limit, len(list))], nil
}

// Read implements process.ArchiveStore.
func (a *Archive) Read(_ context.Context, log int64, after uint64, maxBytes int) ([]process.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []process.Event
	if l := a.logs[log]; l != nil {
		taken := 0
		for _, e := range l.output {
			if e.Seq <= after {
				continue
			}
			if maxBytes >= 0 && len(list) > 0 && taken+len(e.Data) > maxBytes {
				break
			}
			taken += len(e.Data)
			list = append(list, e)
		}
	}
	return list, nil
}

// Recover implements process.ArchiveStore.
func (a *Archive) Recover(_ context.Context, at time.Time) (last int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.logs {
		last = max(last, l.Log)
		if !l.ended {
			l.ended, l.at = true, at
		}
	}
	return last, nil
}

// Sweep implements process.ArchiveStore.
func (a *Archive) Sweep(ctx context.Context, keep process.ArchiveKeep) error {
	list, err := a.List(ctx, 1<<30)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, l := range list {
		keep.Bytes -= a.logs[l.Log].bytes
		if i >= keep.Logs || keep.Bytes < 0 || a.logs[l.Log].at.Before(keep.Since) {
			delete(a.logs, l.Log)
		}
	}
	return err
}
