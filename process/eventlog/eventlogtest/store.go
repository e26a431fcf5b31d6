package eventlogtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// Run tests the stores that open returns: empty ones.
func Run(t *testing.T, open func(t *testing.T) eventlog.Store) {
	for name, test := range map[string]func(*testing.T, suite){
		"Life": testLife, "Process": testProcess, "Pages": testPages, "Again": testAgain, "Evict": testEvict,
		"Forget": testForget, "Hide": testHide, "List": testList, "Recover": testRecover, "Ends": testEnds, "Sweep": testSweep, "Concurrent": testConcurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, suite{t, open(t)}) })
	}
}

// pageEvents is how many events the suite reads at most.
const pageEvents = 50

// start is when all of the suite's commands begin.
var start = time.UnixMilli(1_800_000_000_123)

type suite struct {
	t *testing.T
	eventlog.Store
}

// run says what a run is, and process what a process is.
func run(id string) *eventlog.Info {
	return &eventlog.Info{Origin: eventlog.OriginRun, ID: id, Argv: []string{"/bin/sh", "-c", id}, Cwd: "/" + id, Started: start}
}

func process(id string) *eventlog.Info {
	return &eventlog.Info{
		Origin: eventlog.OriginSession, ID: id, SessionID: "s", Client: "c", Peer: "127.0.0.1:1", PID: 7, Argv: []string{"a", "b\x01"}, Cwd: "file:///", TTY: id == "tty", Sandbox: "none", Started: start,
	}
}

// write writes changes and returns the number of the last one's log.
func (s suite) write(changes ...eventlog.Change) int64 {
	s.t.Helper()
	for i := range changes {
		if changes[i].At.IsZero() {
			changes[i].At = start
		}
	}
	if err := s.Write(s.t.Context(), changes); err != nil {
		s.t.Fatal(err)
	}
	return changes[len(changes)-1].Log
}

func (s suite) begin(info *eventlog.Info) int64 {
	s.t.Helper()
	return s.write(eventlog.Change{Info: info})
}

func (s suite) end(log int64, at time.Time, last uint64, size int64) {
	s.t.Helper()
	s.write(eventlog.Change{Log: log, At: at, Events: []eventlog.Event{exit(last, 0)}, Ended: true, Bytes: size, Printed: size})
}

func (s suite) want(log int64, after uint64, maxBytes int, wanted ...eventlog.Event) {
	s.t.Helper()
	got, err := s.Read(s.t.Context(), log, after, maxBytes, pageEvents)
	if diff := cmp.Diff(wanted, got, cmpopts.EquateEmpty(), events); diff != "" || err != nil {
		s.t.Errorf("%v, events (-want +got):\n%s", err, diff)
	}
}

// find returns the newest log with that id.
func (s suite) find(origin eventlog.Origin, id string) eventlog.Record {
	s.t.Helper()
	list := s.list(eventlog.Query{Origin: origin, ID: &id, Limit: 1})
	if len(list) == 0 {
		s.t.Fatalf("%s is not there", id)
	}
	return list[0]
}

func (s suite) list(q eventlog.Query) []eventlog.Record {
	s.t.Helper()
	list, err := s.List(s.t.Context(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s suite) gone(q eventlog.Query) {
	s.t.Helper()
	q.Limit = 10
	if list := s.list(q); len(list) > 0 {
		s.t.Errorf("%+v finds %+v", q, list)
	}
}

func out(seq uint64, data string) eventlog.Event {
	return eventlog.Event{Seq: seq, Kind: eventlog.KindOutput, Stream: "stdout", Data: []byte(data)}
}

func exit(seq uint64, code int) eventlog.Event {
	return eventlog.Event{Seq: seq, Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: code}}
}

// wantRecord compares what is found with what was written.
func (s suite) wantRecord(want eventlog.Record) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.find(want.Origin, want.ID), cmpopts.IgnoreFields(want, "End")); diff != "" {
		s.t.Errorf("record (-want +got):\n%s", diff)
	}
}

func testLife(t *testing.T, s suite) {
	s.gone(eventlog.Query{Origin: eventlog.OriginRun, ID: new("a")})
	a, b := s.begin(run("a")), s.begin(run("b"))
	s.wantRecord(eventlog.Record{Log: a, Info: *run("a")})
	s.want(a, 0, 100)
	err := eventlog.Event{Seq: 2, Kind: eventlog.KindOutput, Stream: "stderr", Data: []byte{0, 0xff}}
	s.write(
		eventlog.Change{Log: a, Events: []eventlog.Event{out(1, "one"), err}},
		eventlog.Change{Log: b, Events: []eventlog.Event{out(1, "other")}})
	s.want(a, 0, 100, out(1, "one"), err)
	later := start.Add(time.Second)
	s.write(eventlog.Change{Log: a, At: later, Events: []eventlog.Event{out(3, "two"), exit(4, -1)}, Ended: true, Bytes: 8, Printed: 9})
	s.want(a, 0, 100, out(1, "one"), err, out(3, "two"), exit(4, -1))
	s.want(a, 2, 100, out(3, "two"), exit(4, -1))
	s.want(a, 4, 100)
	s.want(a, 1<<40, 100)
	s.want(b, 0, 100, out(1, "other"))
	s.wantRecord(eventlog.Record{Log: a, Info: *run("a"), Exit: &eventlog.Exit{Code: -1}, Ended: true, At: later, Last: 4, Bytes: 8, Printed: 9})
	for _, code := range []int{0, 1, 255, 143, -1 << 31, 1<<31 - 1} {
		c := s.begin(run("code"))
		s.write(eventlog.Change{Log: c, Events: []eventlog.Event{exit(1, code)}, Ended: true})
		s.want(c, 0, 1, exit(1, code))
		if r := s.find(eventlog.OriginRun, "code"); r.Exit.Code != code {
			t.Errorf("%+v", r)
		}
	}
}

// A process has an exit of more than a code, and may print after it; several have one id.
func testProcess(t *testing.T, s suite) {
	p := s.begin(process("p"))
	s.gone(eventlog.Query{ID: new("p"), Ended: true})
	s.gone(eventlog.Query{Origin: eventlog.OriginRun, ID: new("p")})
	full := &eventlog.Exit{Code: 143, Signal: "SIGTERM", SandboxDenied: true, TimedOut: true, Limit: "cpu"}
	s.write(
		eventlog.Change{Log: p, Events: []eventlog.Event{out(1, "a"), {Seq: 2, Kind: eventlog.KindExited, Exit: full}}},
		eventlog.Change{Log: p, Events: []eventlog.Event{out(3, "late"), {Seq: 4, Kind: eventlog.KindClosed}}, Ended: true, Bytes: 5, Printed: 5})
	s.want(p, 0, 0, out(1, "a"), exit(2, 143))
	s.want(p, 1, 0, exit(2, 143), out(3, "late"))
	s.wantRecord(eventlog.Record{Log: p, Info: *process("p"), Exit: full, Ended: true, At: start, Last: 4, Bytes: 5, Printed: 5})
	// All of one, at once, and of a terminal.
	chunk := eventlog.Event{Seq: 1, Kind: eventlog.KindOutput, Stream: "pty", Data: []byte("x")}
	tty := s.write(eventlog.Change{
		Info: process("tty"), Ended: true, Bytes: 1, Printed: 1,
		Events: []eventlog.Event{chunk, exit(2, 0), {Seq: 3, Kind: eventlog.KindClosed}},
	})
	s.want(tty, 0, 100, chunk, exit(2, 0))
	again := s.begin(process("p"))
	if list := s.list(eventlog.Query{ID: new("p"), Limit: 10}); len(list) != 2 || list[0].Log != again || list[1].Log != p {
		t.Errorf("%+v", list)
	}
	if list := s.list(eventlog.Query{ID: new("p"), Ended: true, Limit: 1}); len(list) != 1 || list[0].Log != p {
		t.Errorf("%+v", list)
	}
}

// The output that is read at a time is bounded, but for one event.
func testPages(_ *testing.T, s suite) {
	a := s.begin(run("a"))
	var all []eventlog.Event
	for seq := uint64(1); seq <= 40; seq++ {
		all = append(all, out(seq, fmt.Sprintf("%04d", seq)))
	}
	s.write(eventlog.Change{Log: a, Events: all})
	s.end(a, start, 41, 160)
	all = append(all, exit(41, 0))
	for _, c := range []struct{ after, max, want int }{{0, 0, 1}, {0, 4, 1}, {0, 7, 1}, {0, 8, 2}, {5, 35, 8}, {38, 8, 3}, {39, 4, 2}, {0, 160, 41}} {
		s.want(a, uint64(c.after), c.max, all[c.after:c.after+c.want]...)
	}
	b := s.begin(run("b"))
	var many []eventlog.Event
	for seq := uint64(1); seq <= 2*pageEvents; seq++ {
		many = append(many, out(seq, "x"))
	}
	s.write(eventlog.Change{Log: b, Events: many})
	s.want(b, 10, 1<<20, many[10:10+pageEvents]...)
}

// A run that has an ended one's id replaces it.
func testAgain(t *testing.T, s suite) {
	p := s.begin(process("a"))
	a := s.begin(run("a"))
	s.write(eventlog.Change{Log: a, Events: []eventlog.Event{out(1, "one")}})
	s.end(a, start, 2, 3)
	b := s.begin(run("a"))
	s.want(a, 0, 100)
	s.want(b, 0, 100)
	if list := s.list(eventlog.Query{Origin: eventlog.OriginRun, ID: new("a"), Limit: 10}); len(list) != 1 || list[0].Log != b || list[0].Ended {
		t.Errorf("%+v", list)
	}
	s.write(eventlog.Change{Log: b, Events: []eventlog.Event{out(1, "two")}})
	s.want(b, 0, 100, out(1, "two"))
	if r := s.find(eventlog.OriginSession, "a"); r.Log != p {
		t.Errorf("%+v", r)
	}
}

// The beginning of a log that is too long is removed, and nothing else.
func testEvict(t *testing.T, s suite) {
	a, b := s.begin(run("a")), s.begin(run("b"))
	s.write(eventlog.Change{Log: b, Events: []eventlog.Event{out(1, "other")}})
	s.write(eventlog.Change{Log: a, Events: []eventlog.Event{out(1, "one"), out(2, "two"), out(3, "three")}})
	s.write(eventlog.Change{Log: a, Evicted: true}) // somebody reads it still
	s.want(a, 0, 100, out(1, "one"), out(2, "two"), out(3, "three"))
	if r := s.find(eventlog.OriginRun, "a"); !r.Evicted || r.Ended {
		t.Errorf("%+v", r)
	}
	s.write(eventlog.Change{Log: a, First: 3})
	s.want(a, 0, 100, out(3, "three"))
	s.write(eventlog.Change{Log: a, Events: []eventlog.Event{out(4, "four"), out(5, "five")}, First: 4})
	s.want(a, 0, 100, out(4, "four"), out(5, "five"))
	s.write(eventlog.Change{Log: a, Events: []eventlog.Event{exit(6, 3)}, First: 5, Ended: true, Bytes: 4, Printed: 19})
	s.want(a, 0, 100, out(5, "five"), exit(6, 3))
	s.wantRecord(eventlog.Record{Log: a, Info: *run("a"), Evicted: true, Exit: &eventlog.Exit{Code: 3}, Ended: true, At: start, Last: 6, Bytes: 4, Printed: 19})
	s.want(b, 0, 100, out(1, "other"))
}

func testForget(_ *testing.T, s suite) {
	a, b := s.begin(run("a")), s.begin(run("b"))
	s.write(eventlog.Change{Log: a, Events: []eventlog.Event{out(1, "one")}}, eventlog.Change{Log: b, Events: []eventlog.Event{out(1, "other")}})
	for range 2 {
		s.write(eventlog.Change{Log: a, Forget: true})
		s.gone(eventlog.Query{Origin: eventlog.OriginRun, ID: new("a")})
		s.want(a, 0, 100)
	}
	s.want(b, 0, 100, out(1, "other"))
	s.write(eventlog.Change{Log: b, Forget: true})
	if ended, err := s.Recover(s.t.Context(), start); len(ended) != 0 || err != nil {
		s.t.Error(ended, err)
	}
	if c := s.begin(run("c")); c != b+1 {
		s.t.Errorf("the number of %d is given again, as %d", b, c)
	}
}

// Only a query for hidden logs finds them. Of a run that was replaced the events stay.
func testHide(t *testing.T, s suite) {
	a, other := s.begin(run("a")), s.begin(run("other"))
	s.write(eventlog.Change{Log: a, Events: []eventlog.Event{out(1, "one")}})
	s.end(a, start, 2, 3)
	b := s.write(eventlog.Change{Info: run("a"), Hide: true, Events: []eventlog.Event{out(1, "two")}})
	later := start.Add(time.Minute)
	all := eventlog.Query{Origin: eventlog.OriginRun, ID: new("a"), Hidden: true, Limit: 10}
	if r := s.find(eventlog.OriginRun, "a"); r.Log != b || len(s.list(all)) != 2 {
		t.Errorf("%+v, %+v", r, s.list(all))
	}
	s.want(a, 0, 100, out(1, "one"), exit(2, 0))
	for range 2 {
		s.write(eventlog.Change{Log: b, Forget: true, Hide: true, At: later}) // while it is live
		s.gone(eventlog.Query{Origin: eventlog.OriginRun, ID: new("a")})
		list := s.list(all)
		if len(list) != 2 || list[0].Log != b || !list[0].Ended || !list[0].At.Equal(later) || list[0].Exit == nil || list[0].Bytes != 0 || list[1].Exit.Code != 0 {
			t.Errorf("%+v", list)
		}
		s.want(b, 0, 100)
	}
	s.write(eventlog.Change{Log: 1000, Forget: true, Hide: true, At: later})
	if r := s.find(eventlog.OriginRun, "other"); r.Log != other || r.Ended {
		t.Errorf("%+v", r)
	}
	if ended, err := s.Recover(t.Context(), later); !slices.Equal(ended, []int64{other}) || err != nil {
		t.Error(ended, err)
	}
}

// Those that have ended are listed as they are found, the newest beginnings first.
func testList(t *testing.T, s suite) {
	want := func(since time.Time, n int, ids ...string) {
		t.Helper()
		var all []eventlog.Record
		for _, id := range ids {
			all = append(all, s.find(eventlog.OriginRun, id))
		}
		got := s.list(eventlog.Query{Origin: eventlog.OriginRun, Ended: true, Since: since, Limit: n})
		if diff := cmp.Diff(all, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	want(time.Time{}, 10)
	a, b, _, d := s.begin(run("a")), s.begin(run("b")), s.begin(run("live")), s.begin(run("d"))
	s.end(s.begin(process("p")), start.Add(5*time.Second), 1, 0)
	s.end(d, start.Add(time.Second), 1, 0)
	s.end(a, start.Add(2*time.Second), 1, 0)
	s.write(eventlog.Change{Log: b, At: start.Add(3 * time.Second), Evicted: true, Events: []eventlog.Event{exit(7, 9)}, First: 7, Ended: true})
	want(time.Time{}, 10, "d", "b", "a")
	want(time.Time{}, 2, "d", "b")
	want(start.Add(2*time.Second), 10, "b", "a")
	want(start.Add(3*time.Second), 1, "b")
	want(start.Add(4*time.Second), 10)
	first, p := s.find(eventlog.OriginRun, "a"), s.find(eventlog.OriginSession, "p")
	for name, c := range map[string]struct {
		q    eventlog.Query
		want []string
	}{
		"all":         {eventlog.Query{}, []string{"p", "d", "live", "b", "a"}},
		"before":      {eventlog.Query{Before: new(p.Log - 2)}, []string{"b", "a"}},
		"one":         {eventlog.Query{Log: &first.Log}, []string{"a"}},
		"live":        {eventlog.Query{Live: true}, []string{"live"}},
		"failed":      {eventlog.Query{Failed: true}, []string{"b"}},
		"client":      {eventlog.Query{Client: new("c")}, []string{"p"}},
		"text":        {eventlog.Query{Text: "-c li"}, []string{"live"}},
		"no id":       {eventlog.Query{ID: new("")}, nil},
		"no client":   {eventlog.Query{Client: new("")}, []string{"d", "live", "b", "a"}},
		"number 0":    {eventlog.Query{Log: new(int64)}, nil},
		"before 0":    {eventlog.Query{Before: new(int64)}, nil},
		"ends":        {eventlog.Query{EndAfter: new(int64)}, []string{"p", "d", "a", "b"}},
		"ends after":  {eventlog.Query{EndAfter: new(first.End)}, []string{"b"}},
		"started":     {eventlog.Query{Started: start, Log: &first.Log}, []string{"a"}},
		"not started": {eventlog.Query{Started: start.Add(time.Second)}, nil},
	} {
		c.q.Limit = 10
		var got []string
		for _, r := range s.list(c.q) {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Ends are counted, of logs that are forgotten too.
func testEnds(t *testing.T, s suite) {
	last := func(want int64) {
		t.Helper()
		if n, err := s.LastEnd(t.Context()); n != want || err != nil {
			t.Errorf("the last end is %d, %v; want %d", n, err, want)
		}
	}
	last(0)
	a, b, c := s.begin(run("a")), s.begin(run("b")), s.begin(process("c"))
	last(0)
	s.end(b, start, 1, 0)
	s.end(a, start, 1, 0)
	last(2)
	s.write(eventlog.Change{Log: a, Forget: true})
	last(2)
	s.write(eventlog.Change{Log: c, Ended: true})
	last(3)
	s.write(eventlog.Change{Info: run("d"), Events: []eventlog.Event{exit(1, 0)}, Ended: true})
	e := s.begin(run("e"))
	s.write(eventlog.Change{Log: e, Forget: true, Hide: true, Events: []eventlog.Event{exit(1, 137)}, Printed: 9})
	if r := s.list(eventlog.Query{EndAfter: new(int64(4)), Hidden: true, Limit: 10}); len(r) != 1 || r[0].Log != e || r[0].Exit.Code != 137 || r[0].Printed != 9 {
		t.Errorf("%+v", r)
	}
	for n, id := range []string{1: "b", 3: "c", 4: "d"} {
		if id != "" {
			if r := s.list(eventlog.Query{ID: &id, Limit: 1}); r[0].End != int64(n) {
				t.Errorf("%+v ended as number %d", r, n)
			}
		}
	}
}

func testRecover(t *testing.T, s suite) {
	done := s.begin(run("done"))
	s.end(done, start, 1, 0)
	silent, talking, lost := s.begin(run("silent")), s.begin(run("talking")), s.begin(run("evicted"))
	s.write(eventlog.Change{Log: talking, Events: []eventlog.Event{out(1, "one"), out(2, "two")}})
	s.write(eventlog.Change{Log: lost, Events: []eventlog.Event{out(1, "one"), out(2, "two"), out(3, "three")}, Evicted: true, First: 2})
	p, quiet, exited := s.begin(process("p")), s.begin(process("quiet")), s.begin(process("exited"))
	s.write(eventlog.Change{Log: p, Events: []eventlog.Event{out(1, "a"), out(2, "b")}},
		eventlog.Change{Log: exited, Events: []eventlog.Event{out(1, "a"), exit(2, 3)}})
	later := start.Add(time.Minute)
	for _, want := range [][]int64{{silent, talking, lost, p, quiet, exited}, nil} {
		if ended, err := s.Recover(t.Context(), later); !slices.Equal(ended, want) || err != nil {
			t.Errorf("%v, %v; want %v", ended, err, want)
		}
		s.want(done, 0, 100, exit(1, 0))
		s.want(silent, 0, 100, exit(1, -1))
		s.want(talking, 0, 100, out(1, "one"), out(2, "two"), exit(3, -1))
		s.want(lost, 0, 100, out(2, "two"), out(3, "three"), exit(4, -1))
		ended := eventlog.Record{Log: talking, Info: *run("talking"), Exit: &eventlog.Exit{Code: -1}, Ended: true, At: later, Last: 3, Bytes: 6, Printed: 6}
		s.wantRecord(ended)
		ended.Log, ended.Info, ended.Evicted, ended.Last, ended.Bytes, ended.Printed = lost, *run("evicted"), true, 4, 8, 8
		s.wantRecord(ended)
		// Nobody knows how a process has ended.
		s.want(p, 0, 100, out(1, "a"), out(2, "b"))
		s.wantRecord(eventlog.Record{Log: p, Info: *process("p"), Ended: true, At: later, Last: 2, Bytes: 2, Printed: 2})
		s.wantRecord(eventlog.Record{Log: quiet, Info: *process("quiet"), Ended: true, At: later})
		s.wantRecord(eventlog.Record{Log: exited, Info: *process("exited"), Exit: &eventlog.Exit{Code: 3}, Ended: true, At: later, Last: 2, Bytes: 1, Printed: 1})
	}
}

func testSweep(t *testing.T, s suite) {
	// The ids are their ages in seconds.
	const logs = 250
	for age := range logs {
		info := run(fmt.Sprint(age))
		if age%2 == 0 {
			info = process(fmt.Sprint(age))
		}
		log := s.begin(info)
		s.write(eventlog.Change{Log: log, Events: []eventlog.Event{out(1, "0123456789")}})
		s.end(log, start.Add(-time.Duration(age)*time.Second), 2, 10)
	}
	live := s.begin(run("live"))
	s.write(eventlog.Change{Log: live, Events: []eventlog.Event{out(1, "one")}})
	all := eventlog.Keep{Logs: 1 << 30, Bytes: 1 << 40}
	for _, c := range []struct {
		change func(*eventlog.Keep)
		left   int
	}{
		{func(*eventlog.Keep) {}, logs},
		{func(k *eventlog.Keep) { k.Since = start.Add(-219 * time.Second) }, 220},
		{func(k *eventlog.Keep) { k.Logs = 150 }, 150},
		{func(k *eventlog.Keep) { k.Bytes = 109 }, 10},
		{func(k *eventlog.Keep) { k.Since = start.Add(time.Second) }, 0},
	} {
		keep := all
		c.change(&keep)
		if err := s.Sweep(t.Context(), keep); err != nil {
			t.Fatal(err)
		}
		var left []eventlog.Record
		for _, origin := range []eventlog.Origin{eventlog.OriginSession, eventlog.OriginRun} {
			left = append(left, s.list(eventlog.Query{Origin: origin, Ended: true, Limit: 1000})...)
		}
		slices.SortFunc(left, func(a, b eventlog.Record) int { return b.At.Compare(a.At) })
		if len(left) != c.left || c.left > 0 && left[c.left-1].ID != fmt.Sprint(c.left-1) {
			t.Errorf("%d logs are left, want %d", len(left), c.left)
		}
		for i := range left {
			s.want(left[i].Log, 0, 100, out(1, "0123456789"), exit(2, 0))
		}
		s.want(live, 0, 100, out(1, "one"))
	}
	s.want(1, 0, 100)
}

// Logs do not mix, and what was written is there at once.
func testConcurrent(t *testing.T, s suite) {
	const logs, batches = 8, 20
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			ctx := context.WithoutCancel(t.Context())
			log := int64(0)
			info := run(fmt.Sprint(i))
			var all []eventlog.Event
			for seq := uint64(1); seq <= 2*batches; seq += 2 {
				c := eventlog.Change{Log: log, Info: info, At: start, Events: []eventlog.Event{out(seq, fmt.Sprint(i)), out(seq+1, fmt.Sprint(seq))}}
				info = nil
				all = append(all, c.Events...)
				changes := []eventlog.Change{c}
				if err := s.Write(ctx, changes); err != nil {
					t.Error(err)
				}
				log = changes[0].Log
				got, err := s.Read(ctx, log, 0, -1, -1)
				if diff := cmp.Diff(all, got, events); diff != "" || err != nil {
					t.Errorf("log %d: %v\n%s", i, err, diff)
					return
				}
			}
			if i%2 == 0 {
				if err := s.Write(ctx, []eventlog.Change{{Log: log, Forget: true}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range logs {
		list := s.list(eventlog.Query{Origin: eventlog.OriginRun, ID: new(fmt.Sprint(i)), Limit: 2})
		if want := i % 2; len(list) != want {
			t.Errorf("%d logs of %d", len(list), i)
		}
	}
}
