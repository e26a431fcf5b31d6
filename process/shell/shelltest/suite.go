package shelltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wsd-dev/wsd/process/shell"
)

// Run tests the stores that open returns: empty ones.
func Run(t *testing.T, open func(t *testing.T) shell.Store) {
	for name, test := range map[string]func(*testing.T, suite){
		"Life": testLife, "Pages": testPages, "Again": testAgain, "Evict": testEvict,
		"Forget": testForget, "Ended": testEnded, "Recover": testRecover, "Sweep": testSweep, "Concurrent": testConcurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, suite{t, open(t)}) })
	}
}

// start is when all of the suite's runs begin.
var start = time.UnixMilli(1_800_000_000_123)

// about is what is told of the run of an id.
func about(id string) shell.About { return shell.About{Command: "run " + id, Cwd: "/" + id} }

type suite struct {
	t *testing.T
	shell.Store
}

func (s suite) begin(id string) int64 {
	s.t.Helper()
	run, err := s.Begin(s.t.Context(), id, about(id), start)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s suite) append(run int64, b shell.Batch) {
	s.t.Helper()
	if b.At.IsZero() {
		b.At = start
	}
	if err := s.Append(s.t.Context(), run, &b); err != nil {
		s.t.Fatal(err)
	}
}

func (s suite) end(run int64, at time.Time, last uint64, size int64) {
	s.t.Helper()
	s.append(run, shell.Batch{At: at, Events: []shell.Event{exit(last, 0)}, End: &shell.End{Last: last, Bytes: size}})
}

func (s suite) read(run int64, after uint64, maxBytes int) []shell.Event {
	s.t.Helper()
	events, err := s.Read(s.t.Context(), run, after, maxBytes)
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

func (s suite) want(got []shell.Event, wanted ...shell.Event) {
	s.t.Helper()
	if diff := cmp.Diff(wanted, got, cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func (s suite) find(id string) shell.Record {
	s.t.Helper()
	r, err := s.Find(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s suite) gone(id string) {
	s.t.Helper()
	if r, err := s.Find(s.t.Context(), id); !errors.Is(err, shell.ErrNoRun) {
		s.t.Errorf("%s is %+v, %v", id, r, err)
	}
}

func out(seq uint64, data string) shell.Event {
	return shell.Event{Seq: seq, Name: shell.Stdout, Data: []byte(data)}
}

func exit(seq uint64, code int) shell.Event {
	return shell.Event{Seq: seq, Name: shell.Exit, Code: code}
}

func testLife(t *testing.T, s suite) {
	s.gone("a")
	a, b := s.begin("a"), s.begin("b")
	if a == b {
		t.Fatal("two runs have one number")
	}
	if diff := cmp.Diff(shell.Record{Run: a, ID: "a", About: about("a"), Started: start}, s.find("a")); diff != "" {
		t.Error(diff)
	}
	s.want(s.read(a, 0, 100))
	err := shell.Event{Seq: 2, Name: shell.Stderr, Data: []byte{0, 0xff}}
	s.append(a, shell.Batch{Events: []shell.Event{out(1, "one"), err}})
	s.append(b, shell.Batch{Events: []shell.Event{out(1, "other")}})
	s.want(s.read(a, 0, 100), out(1, "one"), err)
	later := start.Add(time.Second)
	s.append(a, shell.Batch{At: later, Events: []shell.Event{out(3, "two"), exit(4, -1)}, End: &shell.End{Code: -1, Last: 4, Bytes: 8}})
	s.want(s.read(a, 0, 100), out(1, "one"), err, out(3, "two"), exit(4, -1))
	s.want(s.read(a, 2, 100), out(3, "two"), exit(4, -1))
	s.want(s.read(a, 4, 100))
	s.want(s.read(a, 1<<40, 100))
	s.want(s.read(b, 0, 100), out(1, "other"))
	want := shell.Record{Run: a, ID: "a", About: about("a"), Started: start, Ended: true, At: later, End: shell.End{Code: -1, Last: 4, Bytes: 8}}
	if diff := cmp.Diff(want, s.find("a")); diff != "" {
		t.Error(diff)
	}
	for _, code := range []int{0, 1, 255, 143, -1 << 31, 1<<31 - 1} {
		c := s.begin("code")
		s.append(c, shell.Batch{Events: []shell.Event{exit(1, code)}, End: &shell.End{Code: code, Last: 1}})
		s.want(s.read(c, 0, 1), exit(1, code))
	}
}

// What is read at a time is bounded, but for one event.
func testPages(t *testing.T, s suite) {
	a := s.begin("a")
	var all []shell.Event
	for seq := uint64(1); seq <= 40; seq++ {
		all = append(all, out(seq, fmt.Sprintf("%04d", seq)))
	}
	s.append(a, shell.Batch{Events: all})
	s.end(a, start, 41, 160)
	all = append(all, exit(41, 0))
	for _, c := range []struct{ after, max, want int }{{0, 0, 1}, {0, 4, 1}, {0, 7, 1}, {0, 8, 2}, {5, 35, 8}, {38, 8, 3}, {39, 4, 2}, {0, 160, 41}} {
		s.want(s.read(a, uint64(c.after), c.max), all[c.after:c.after+c.want]...)
	}
	b := s.begin("b")
	var many []shell.Event
	for seq := uint64(1); seq <= 2*shell.MaxPageEvents; seq++ {
		many = append(many, out(seq, "x"))
	}
	s.append(b, shell.Batch{Events: many})
	s.want(s.read(b, 10, 1<<20), many[10:10+shell.MaxPageEvents]...)
}

// A run that has an ended one's id replaces it.
func testAgain(_ *testing.T, s suite) {
	a := s.begin("a")
	s.append(a, shell.Batch{Events: []shell.Event{out(1, "one")}})
	s.end(a, start, 2, 3)
	b := s.begin("a")
	s.want(s.read(a, 0, 100))
	s.want(s.read(b, 0, 100))
	if r := s.find("a"); r.Run != b || r.Ended {
		s.t.Errorf("%+v", r)
	}
	s.append(b, shell.Batch{Events: []shell.Event{out(1, "two")}})
	s.want(s.read(b, 0, 100), out(1, "two"))
}

// The beginning of a log that is too long is removed, and nothing else.
func testEvict(t *testing.T, s suite) {
	a, b := s.begin("a"), s.begin("b")
	s.append(b, shell.Batch{Events: []shell.Event{out(1, "other")}})
	s.append(a, shell.Batch{Events: []shell.Event{out(1, "one"), out(2, "two"), out(3, "three")}})
	s.append(a, shell.Batch{Evicted: true}) // somebody reads it still
	s.want(s.read(a, 0, 100), out(1, "one"), out(2, "two"), out(3, "three"))
	if r := s.find("a"); !r.Evicted || r.Ended {
		t.Errorf("%+v", r)
	}
	s.append(a, shell.Batch{First: 3})
	s.want(s.read(a, 0, 100), out(3, "three"))
	s.append(a, shell.Batch{Events: []shell.Event{out(4, "four"), out(5, "five")}, First: 4})
	s.want(s.read(a, 0, 100), out(4, "four"), out(5, "five"))
	s.append(a, shell.Batch{At: start, Events: []shell.Event{exit(6, 3)}, First: 5, End: &shell.End{Code: 3, Last: 6, Bytes: 4}})
	s.want(s.read(a, 0, 100), out(5, "five"), exit(6, 3))
	if r := s.find("a"); !r.Evicted || !r.Ended || r.End != (shell.End{Code: 3, Last: 6, Bytes: 4}) {
		t.Errorf("%+v", r)
	}
	s.want(s.read(b, 0, 100), out(1, "other"))
}

func testForget(t *testing.T, s suite) {
	a, b := s.begin("a"), s.begin("b")
	s.append(a, shell.Batch{Events: []shell.Event{out(1, "one")}})
	s.append(b, shell.Batch{Events: []shell.Event{out(1, "other")}})
	for range 2 {
		if err := s.Forget(t.Context(), a); err != nil {
			t.Error(err)
		}
		s.gone("a")
		s.want(s.read(a, 0, 100))
	}
	s.want(s.read(b, 0, 100), out(1, "other"))
	if c := s.begin("a"); c == a || c == b {
		t.Errorf("run %d has the number of another", c)
	}
}

// Those that have ended are listed as they are found, the newest beginnings first.
func testEnded(t *testing.T, s suite) {
	want := func(since time.Time, n int, ids ...string) {
		t.Helper()
		got, err := s.Ended(t.Context(), since, n)
		if err != nil {
			t.Fatal(err)
		}
		var all []shell.Record
		for _, id := range ids {
			all = append(all, s.find(id))
		}
		if diff := cmp.Diff(all, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	want(time.Time{}, 10)
	a, b, _, d := s.begin("a"), s.begin("b"), s.begin("live"), s.begin("d")
	s.end(d, start.Add(time.Second), 1, 0)
	s.end(a, start.Add(2*time.Second), 1, 0)
	s.append(b, shell.Batch{At: start.Add(3 * time.Second), Evicted: true, Events: []shell.Event{exit(7, 9)}, First: 7, End: &shell.End{Code: 9, Last: 7}})
	want(time.Time{}, 10, "d", "b", "a")
	want(time.Time{}, 2, "d", "b")
	want(start.Add(2*time.Second), 10, "b", "a")
	want(start.Add(3*time.Second), 1, "b")
	want(start.Add(4*time.Second), 10)
}

func testRecover(t *testing.T, s suite) {
	done := s.begin("done")
	s.end(done, start, 1, 0)
	silent, talking, lost := s.begin("silent"), s.begin("talking"), s.begin("evicted")
	s.append(talking, shell.Batch{Events: []shell.Event{out(1, "one"), out(2, "two")}})
	s.append(lost, shell.Batch{Events: []shell.Event{out(1, "one"), out(2, "two"), out(3, "three")}, Evicted: true, First: 2})
	later := start.Add(time.Minute)
	for _, want := range []int{3, 0} {
		if n, err := s.Recover(t.Context(), later); n != want || err != nil {
			t.Errorf("%d, %v; want %d", n, err, want)
		}
		s.want(s.read(done, 0, 100), exit(1, 0))
		s.want(s.read(silent, 0, 100), exit(1, -1))
		s.want(s.read(talking, 0, 100), out(1, "one"), out(2, "two"), exit(3, -1))
		s.want(s.read(lost, 0, 100), out(2, "two"), out(3, "three"), exit(4, -1))
		if r := s.find("talking"); !r.Ended || !r.At.Equal(later) || r.End != (shell.End{Code: -1, Last: 3, Bytes: 6}) {
			t.Errorf("%+v", r)
		}
		if r := s.find("evicted"); !r.Ended || !r.Evicted || r.End != (shell.End{Code: -1, Last: 4, Bytes: 8}) {
			t.Errorf("%+v", r)
		}
	}
}

func testSweep(t *testing.T, s suite) {
	// The run ids are their ages in seconds.
	const runs = 250
	for age := range runs {
		id := fmt.Sprint(age)
		run := s.begin(id)
		s.append(run, shell.Batch{Events: []shell.Event{out(1, "0123456789")}})
		s.end(run, start.Add(-time.Duration(age)*time.Second), 2, 10)
	}
	live := s.begin("live")
	s.append(live, shell.Batch{Events: []shell.Event{out(1, "one")}})
	all := shell.Keep{Runs: 1 << 30, Bytes: 1 << 40}
	for _, c := range []struct {
		change func(*shell.Keep)
		left   int
	}{
		{func(*shell.Keep) {}, runs},
		{func(k *shell.Keep) { k.Since = start.Add(-219 * time.Second) }, 220},
		{func(k *shell.Keep) { k.Runs = 150 }, 150},
		{func(k *shell.Keep) { k.Bytes = 109 }, 10},
		{func(k *shell.Keep) { k.Since = start.Add(time.Second) }, 0},
	} {
		keep := all
		c.change(&keep)
		if err := s.Sweep(t.Context(), keep); err != nil {
			t.Fatal(err)
		}
		for age := range runs {
			if id := fmt.Sprint(age); age >= c.left {
				s.gone(id)
			} else if r := s.find(id); len(s.read(r.Run, 0, 100)) != 2 {
				t.Errorf("run %s has lost events", id)
			}
		}
		s.want(s.read(live, 0, 100), out(1, "one"))
	}
}

// Runs do not mix, and what was appended is there at once.
func testConcurrent(t *testing.T, s suite) {
	const runs, batches = 8, 20
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			ctx := context.WithoutCancel(t.Context())
			run, err := s.Begin(ctx, fmt.Sprint(i), about("x"), start)
			if err != nil {
				t.Error(err)
				return
			}
			var all []shell.Event
			for seq := uint64(1); seq <= 2*batches; seq += 2 {
				b := shell.Batch{At: start, Events: []shell.Event{out(seq, fmt.Sprint(i)), out(seq+1, fmt.Sprint(seq))}}
				all = append(all, b.Events...)
				if err := s.Append(ctx, run, &b); err != nil {
					t.Error(err)
				}
				events, err := s.Read(ctx, run, 0, 1<<20)
				if diff := cmp.Diff(all, events); diff != "" || err != nil {
					t.Errorf("run %d: %v\n%s", i, err, diff)
					return
				}
			}
			if i%2 == 0 {
				if err := s.Forget(ctx, run); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range runs {
		if i%2 == 0 {
			s.gone(fmt.Sprint(i))
		} else if r := s.find(fmt.Sprint(i)); len(s.read(r.Run, 0, 1<<20)) != 2*batches {
			t.Errorf("run %d has lost events", i)
		}
	}
}
