package shell_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/eventlog/eventlogtest"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
)

// patience bounds every wait of these tests. It is for a loaded machine.
const patience = 30 * time.Second

// A config is that of a Shell and of its log.
type config struct {
	shell.Config
	Store   eventlog.Store // nil for one in memory
	KeepFor time.Duration
	Ended   func(*eventlog.Record)
}

// open opens a Shell and its log, which close closes.
func (c config) open() (s *shell.Shell, closeBoth func() error, err error) {
	if c.Store == nil {
		c.Store = new(memory)
	}
	c.Recorder, err = eventlog.Open(context.Background(), eventlog.Config{Store: c.Store, KeepFor: c.KeepFor, Ended: c.Ended})
	if err == nil {
		s, err = shell.New(c.Config)
	}
	return s, func() error { return errors.Join(s.Close(), c.Recorder.Close()) }, err
}

// memory is a Store in memory, with a run found by its id.
type memory struct{ eventlogtest.Memory }

// failing returns a Store whose changes fail as before says.
func failing(before func(op string) error) *memory {
	return &memory{eventlogtest.Memory{Before: before}}
}

var errNoRun = errors.New("no such run")

// Find returns the newest run that has the id.
func (m *memory) Find(ctx context.Context, id string) (eventlog.Record, error) {
	return find(ctx, m, id)
}

func find(ctx context.Context, store eventlog.Store, id string) (eventlog.Record, error) {
	list, err := store.List(ctx, eventlog.Query{Origin: eventlog.OriginRun, ID: &id, Limit: 1})
	if err != nil || len(list) == 0 {
		return eventlog.Record{}, errors.Join(err, errNoRun)
	}
	return list[0], nil
}

// left writes a run that an earlier server has left, with events.
func left(store eventlog.Store, log int64, id string, at time.Time, events ...eventlog.Event) error {
	info := &eventlog.Info{Origin: eventlog.OriginRun, ID: id, Argv: []string{"/bin/sh", "-c", "make"}, Started: at}
	ended := len(events) > 0 && events[len(events)-1].Kind == eventlog.KindExited
	return store.Write(context.Background(), []eventlog.Change{{Log: log, Info: info, Events: events, At: at, Ended: ended}})
}

func printed(seq uint64, text string) eventlog.Event {
	return eventlog.Event{Seq: seq, Kind: eventlog.KindOutput, Stream: shell.Stdout, Data: []byte(text)}
}

func exited(seq uint64) eventlog.Event {
	return eventlog.Event{Seq: seq, Kind: eventlog.KindExited, Exit: new(eventlog.Exit)}
}

// fixture is a Shell over a Store in memory.
type fixture struct {
	*shell.Shell
	t     testing.TB
	store eventlog.Store
	dir   string
	end   func() error
}

// open makes a Shell that is closed with the test.
func open(t testing.TB, change ...func(*config)) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	cfg := config{Store: new(memory), Config: shell.Config{Dir: func(cwd string) (string, error) { return f.dir + "/" + cwd, nil }}}
	for _, c := range change {
		c(&cfg)
	}
	f.store = cfg.Store
	var err error
	if f.Shell, f.end, err = cfg.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

func (f *fixture) close() {
	f.t.Helper()
	if err := f.end(); err != nil {
		f.t.Error(err)
	}
	if n := f.Running(); n > 0 {
		f.t.Errorf("%d runs are live after Close", n)
	}
}

// within is a context for a wait.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (f *fixture) exec(r shell.Request) (string, shell.Events) {
	f.t.Helper()
	id, events, err := f.Exec(within(f.t), r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(events.Close)
	return id, events
}

func (f *fixture) get(id string, after shell.After) shell.Events {
	f.t.Helper()
	events, err := f.GetExec(within(f.t), id, after)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(events.Close)
	return events
}

// run runs a command to its end.
func (f *fixture) run(r shell.Request) transcript {
	f.t.Helper()
	_, events := f.exec(r)
	return collect(f.t, events)
}

func next(t testing.TB, events shell.Events) shell.Event {
	t.Helper()
	e, err := events.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A transcript is what a follower got.
type transcript struct {
	first, last    uint64
	stdout, stderr []byte
	exits          int
	code           int
	events         int
}

// add checks what every stream of events must be.
func (tr *transcript) add(t testing.TB, e shell.Event) {
	t.Helper()
	switch {
	case tr.events == 0:
		tr.first = e.Seq
	case e.Seq != tr.last+1:
		t.Fatalf("event %d follows %d", e.Seq, tr.last)
	}
	if tr.exits > 0 {
		t.Errorf("%+v after the exit", e)
	}
	tr.last = e.Seq
	tr.events++
	switch e.Name {
	case shell.Stdout:
		tr.stdout = append(tr.stdout, e.Data...)
	case shell.Stderr:
		tr.stderr = append(tr.stderr, e.Data...)
	case shell.Exit:
		tr.exits++
		tr.code = e.Code
	default:
		t.Errorf("event %q", e.Name)
	}
	if len(e.Data) > 64<<10 || (e.Name == shell.Exit) != (e.Data == nil) || e.ID == "" {
		t.Errorf("event %d of %q is %s with %d bytes", e.Seq, e.ID, e.Name, len(e.Data))
	}
}

// collect follows to the end.
func collect(t testing.TB, events shell.Events) transcript {
	t.Helper()
	var tr transcript
	ctx := within(t)
	for {
		e, err := events.Next(ctx)
		if errors.Is(err, io.EOF) {
			return tr
		}
		if err != nil {
			t.Fatal(err)
		}
		tr.add(t, e)
	}
}

// want checks a transcript of a whole run.
func (tr transcript) want(t testing.TB, code int, stdout, stderr string) {
	t.Helper()
	if tr.exits != 1 || tr.code != code || tr.first != 1 || !bytes.Equal(tr.stdout, []byte(stdout)) || !bytes.Equal(tr.stderr, []byte(stderr)) {
		t.Errorf("got %d exits, code %d, first %d, stdout %.200q, stderr %.200q; want code %d, stdout %.200q, stderr %.200q",
			tr.exits, tr.code, tr.first, tr.stdout, tr.stderr, code, stdout, stderr)
	}
}

// wantCode checks what a client is told.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if e, ok := errors.AsType[*protocol.NamedError](err); !ok || e.Code != code {
		t.Errorf("error %v, want one of code %s", err, code)
	}
}

func timeout(d time.Duration) *time.Duration { return &d }
