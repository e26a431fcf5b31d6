package rpc

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// journal records what happens in which order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// job is a task that takes a second of fake time.
func (j *journal) job(name string, order Order) *task {
	return &task{order: order, run: func(*task) {
		j.add("+%s", name)
		time.Sleep(time.Second)
		j.add("-%s", name)
	}}
}

func TestSchedulerOrders(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
		jobs  []struct {
			name  string
			order Order
		}
		want    []string // nil where some run beside each other
		seconds int
	}{
		{
			name: "a serial lane runs one by one, in order", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"a", Serial("x")}, {"b", Serial("x")}, {"c", Serial("x")}},
			want: []string{"+a", "-a", "+b", "-b", "+c", "-c"}, seconds: 3,
		},
		{
			name: "shared ones wait for serial ones before them and hold those behind", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"w", Serial("x")}, {"r", Shared("x")}, {"v", Serial("x")}},
			want: []string{"+w", "-w", "+r", "-r", "+v", "-v"}, seconds: 3,
		},
		{
			name: "one place", limit: 1,
			jobs: []struct {
				name  string
				order Order
			}{{"a", Concurrent}, {"b", Serial("x")}, {"c", Concurrent}},
			want: []string{"+a", "-a", "+b", "-b", "+c", "-c"}, seconds: 3,
		},
		{
			name: "what passes waits for those before, and holds up nobody", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"w", Serial("x")}, {"p", Behind("x").And(Serial("y"))}, {"q", Serial("y")}, {"v", Serial("x")}},
			seconds: 3,
		},
		{
			name: "one that overtakes does not wait for those that another lane holds up", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"w", Serial("x")}, {"p", Behind("x").And(Serial("y"))}, {"q", Serial("y")}, {"o", Overtaking("y")}, {"v", Serial("y")}},
			seconds: 4,
		},
		{
			name: "those behind one that overtakes keep their order to what it overtakes", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"w", Serial("x")}, {"p", Behind("x").And(Serial("y"))}, {"o", Overtaking("y")}, {"q", Behind("x").And(Serial("y"))}, {"o2", Overtaking("y")}},
			seconds: 3,
		},
		{
			name: "but for others, and others for it", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"a", Serial("y")}, {"o", Overtaking("y")}, {"b", Serial("y")}},
			want: []string{"+a", "-a", "+o", "-o", "+b", "-b"}, seconds: 3,
		},
		{
			name: "one that is behind all waits for shared ones", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"r", Shared("x")}, {"p", BehindAll("x")}, {"s", BehindAll("x").And(Shared("y"))}, {"t", Serial("y")}},
			seconds: 3,
		},
		{
			name: "shared ones hold a serial one until the last of them", limit: 9,
			jobs: []struct {
				name  string
				order Order
			}{{"a", Serial("y")}, {"r", Shared("x")}, {"s", Shared("x").And(Serial("y"))}, {"w", Serial("x")}},
			seconds: 3,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				s := newScheduler(tc.limit)
				start := time.Now()
				for _, job := range tc.jobs {
					s.submit(j.job(job.name, job.order))
				}
				s.wait()
				if len(s.lanes) != 0 || s.normal.running != 0 {
					t.Errorf("left behind: %d lanes, %d running", len(s.lanes), s.normal.running)
				}
				if tc.want != nil && !slices.Equal(j.lines, tc.want) {
					t.Errorf("got %v, want %v", j.lines, tc.want)
				}
				if took := time.Since(start); took != time.Duration(tc.seconds)*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestSchedulerRunsBeside(t *testing.T) {
	for name, orders := range map[string][]Order{
		"lanes":      {Serial("a"), Serial("b"), Serial("c"), Serial("d")},
		"shared":     {Shared("a"), Shared("a"), Shared("a"), Shared("a")},
		"concurrent": {Concurrent, Concurrent, Serial("a"), Shared("b")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				s := newScheduler(4)
				start := time.Now()
				for i, order := range orders {
					s.submit(j.job(fmt.Sprint(i), order))
				}
				s.wait()
				if took := time.Since(start); took != time.Second {
					t.Errorf("took %v", took)
				}
				if len(s.lanes) != 0 || s.normal.running != 0 {
					t.Errorf("left behind: %d lanes, %d running", len(s.lanes), s.normal.running)
				}
			})
		})
	}
}

func TestReleaseLetsTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		s := newScheduler(1)
		s.submit(&task{order: Serial("x"), run: func(t *task) {
			j.add("+poll")
			t.release()
			t.release() // harmless
			time.Sleep(time.Hour)
			j.add("-poll")
		}})
		s.submit(j.job("next", Serial("x")))
		s.wait()
		if want := []string{"+poll", "+next", "-next", "-poll"}; !slices.Equal(j.lines, want) {
			t.Errorf("got %v, want %v", j.lines, want)
		}
	})
}

// A task that has yielded leaves its place to another, but not its lane.
func TestYieldKeepsTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		s := newScheduler(1)
		s.submit(&task{order: Serial("x"), run: func(t *task) {
			j.add("+long")
			t.yield()
			t.yield() // harmless
			time.Sleep(time.Hour)
			j.add("-long")
		}})
		s.submit(j.job("next", Serial("x")))
		s.submit(j.job("other", Concurrent))
		s.wait()
		if want := []string{"+long", "+other", "-other", "-long", "+next", "-next"}; !slices.Equal(j.lines, want) {
			t.Errorf("got %v, want %v", j.lines, want)
		}
		if len(s.lanes) != 0 || s.normal.running != 0 {
			t.Errorf("left behind: %d lanes, %d running", len(s.lanes), s.normal.running)
		}
	})
}

// Whatever the orders are, a task runs after the earlier ones that its order names.
func TestSchedulerKeepsEveryOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lanes := []string{"x", "y", "z"}
		kinds := []func(string) Order{Serial, Shared, Behind, BehindAll}
		overtaken := []func(string) Order{Serial, Overtaking}
		orders := make([]Order, rapid.IntRange(1, 30).Draw(rt, "tasks"))
		for i := range orders {
			for _, lane := range lanes {
				if k := rapid.IntRange(0, 2*len(kinds)).Draw(rt, "kind"); k < len(kinds) {
					orders[i] = orders[i].And(kinds[k](lane))
				}
			}
			if k := rapid.IntRange(0, 2*len(overtaken)).Draw(rt, "overtaken"); k < len(overtaken) {
				orders[i] = orders[i].And(overtaken[k]("o"))
			}
		}
		s := newScheduler(rapid.IntRange(1, 4).Draw(rt, "limit"))
		var mu sync.Mutex
		var clock int
		began, ended := make([]int, len(orders)), make([]int, len(orders))
		for i, order := range orders {
			s.submit(&task{order: order, run: func(*task) {
				mu.Lock()
				clock++
				began[i] = clock
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				clock++
				ended[i] = clock
				mu.Unlock()
			}})
		}
		s.wait()
		for i := range orders {
			for j := range i {
				if mustWait(&orders[i], &orders[j]) && began[i] < ended[j] {
					rt.Fatalf("task %d (%+v) ran before task %d (%+v) had ended", i, orders[i], j, orders[j])
				}
			}
		}
		if len(s.lanes) != 0 || s.normal.running != 0 {
			rt.Fatalf("left behind: %d lanes, %d running", len(s.lanes), s.normal.running)
		}
	})
}

// mustWait reports whether a task of the order later waits for an earlier one, whatever
// holds that up.
func mustWait(later, earlier *Order) bool {
	for _, l := range later.claims[:later.count] {
		for _, e := range earlier.claims[:earlier.count] {
			if l.lane == e.lane && !e.passing && !l.overtakes && (l.alone || e.alone) {
				return true
			}
		}
	}
	return false
}

// Urgent tasks run although others that do not end have all the places, and do not wait
// for a task that has none. A few of them run at a time.
func TestUrgentHasPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		s := newScheduler(1)
		gate := make(chan struct{})
		s.submit(&task{order: Serial("x"), run: func(*task) { <-gate }})
		s.submit(j.job("other", Serial("y")))
		s.submit(j.job("first", Overtaking("y")))
		s.submit(j.job("second", Overtaking("y")))
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"+first", "-first", "+second", "-second"}; !slices.Equal(j.lines, want) {
			t.Errorf("got %v, want %v", j.lines, want)
		}
		for i := range 2 * urgentPlaces {
			s.submit(j.job(fmt.Sprint(i), Urgent(Concurrent)))
		}
		began := time.Now()
		synctest.Wait()
		if n := len(j.lines); n != 4+urgentPlaces {
			t.Errorf("%d urgent ones run", n-4)
		}
		close(gate)
		s.wait()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		if len(s.lanes) != 0 || s.normal.running+s.urgent.running != 0 {
			t.Errorf("left behind: %d lanes, %d and %d running", len(s.lanes), s.normal.running, s.urgent.running)
		}
	})
}

// A task that overtakes waits for those before it that are not held up. Tasks that hang in
// all the places delay neither it nor them.
func TestOvertakingHasPlacesForWhatItWaitsFor(t *testing.T) {
	for _, early := range []bool{false, true} { // it comes before the others want a place
		for _, held := range []bool{false, true} { // the latest is held up anyway
			synctest.Test(t, func(t *testing.T) {
				var j journal
				s := newScheduler(2)
				gate := make(chan struct{})
				hang := func(o Order) { s.submit(&task{order: o, run: func(*task) { <-gate }}) }
				hang(Serial("files"))
				s.submit(j.job("first", Serial("y")))
				hang(Concurrent) // at the place of the first
				s.submit(j.job("second", Serial("y")))
				s.submit(j.job("third", Serial("y")))
				if held {
					s.submit(j.job("held", Behind("files").And(Serial("y"))))
				}
				if !early {
					time.Sleep(2 * time.Second)
				}
				s.submit(j.job("over", Overtaking("y")))
				time.Sleep(time.Minute)
				synctest.Wait() // for the race detector, which knows no sleep
				want := []string{"+first", "-first", "+over", "-over"}
				if early {
					want = []string{"+first", "-first", "+second", "-second", "+third", "-third", "+over", "-over"}
				}
				if !slices.Equal(j.lines, want) {
					t.Errorf("early %v, held %v: got %v, want %v", early, held, j.lines, want)
				}
				close(gate)
				s.wait()
			})
		}
	}
}

// Requests that wait for each other take no more memory the more there are of them.
func TestSM4WaitingRequestsTakeLittle(t *testing.T) {
	const tasks = 2000
	s := newScheduler(1)
	gate := make(chan struct{})
	s.submit(&task{order: Serial("files"), run: func(*task) { <-gate }})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, order := range []Order{Behind("files").And(Shared("watches")), Serial("files").And(BehindAll("watches"))} {
		for range tasks {
			s.submit(&task{order: order, run: func(*task) {}})
		}
	}
	runtime.ReadMemStats(&after)
	close(gate)
	s.wait()
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 2*tasks*2048 {
		t.Errorf("%d requests took %d KiB", 2*tasks, taken>>10)
	}
}
