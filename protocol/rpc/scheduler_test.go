package rpc

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
		want    []string
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
				if !slices.Equal(j.lines, tc.want) {
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
				if len(s.lanes) != 0 || s.running != 0 {
					t.Errorf("left behind: %d lanes, %d running", len(s.lanes), s.running)
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
