package rpc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Whatever arrives, yields, lets go and ends in whatever order, a scheduler has begun what
// its model says.
func TestSchedulerIsAsItsModel(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			m := &model{T: t, rand: rand.New(rand.NewPCG(seed, 0))}
			m.limit = 1 + m.rand.IntN(4)
			m.real = newScheduler(m.limit)
			if m.run(200); t.Failed() {
				t.Logf("seed %d, limit %d", seed, m.limit)
			}
		})
	}
}

// A model says in plain loops what its scheduler does.
type model struct {
	*testing.T
	rand  *rand.Rand
	limit int
	real  *scheduler
	clock int          // counts what has happened
	last  int          // how many tasks there have been
	tasks []*modelTask // that have not ended, in the order of arrival
}

// A modelTask is a task, real and as the model has it.
type modelTask struct {
	*task
	name     string
	order    Order
	orders   chan func() // what it is to do
	hasBegun atomic.Bool

	waits          map[*modelTask]bool // for these; true: in a lane that it passes
	before         *modelTask          // that it waits for in the lane where some overtake
	overtook       bool                // somebody in that lane
	urgent         bool
	ready          int // when it had nothing to wait for but a place
	begun          bool
	yielded, letGo bool
}

const overtakersLane = "o"

func (m *model) randomOrder() (o Order) {
	for _, lane := range []string{"x", "y", "z"} {
		kinds := []func(string) Order{Serial, Shared, Behind, BehindAll}
		if k := m.rand.IntN(3 * len(kinds)); k < len(kinds) {
			o = o.And(kinds[k](lane))
		}
	}
	switch m.rand.IntN(4) {
	case 0:
		o = o.And(Serial(overtakersLane))
	case 1:
		o = Overtaking(overtakersLane) // its lanes make all the order that it has
	}
	if m.rand.IntN(8) == 0 {
		o = Urgent(o)
	}
	if m.rand.IntN(3) == 0 {
		o = Quick(o)
	}
	return o
}

// claimIn returns the claim of a lane, if there is one.
func (t *modelTask) claimIn(lane string) *claim {
	i := slices.IndexFunc(t.order.claims[:t.order.count], func(c claim) bool { return c.lane == lane })
	if i < 0 {
		return nil
	}
	return &t.order.claims[i]
}

func (t *modelTask) stuck() bool {
	if t.begun {
		return false
	}
	for _, passing := range t.waits {
		if passing {
			return true
		}
	}
	return len(t.waits) == 0 || t.before != nil && t.before.stuck()
}

// arrives works out what t waits for.
func (m *model) arrives(t *modelTask) {
	t.waits, t.urgent = make(map[*modelTask]bool), t.order.urgent
	for _, c := range t.order.claims[:t.order.count] {
		var overtakers []*modelTask // since the latest that is none
		for _, e := range m.tasks {
			held := e.claimIn(c.lane)
			if e.letGo || held == nil || held.passing || !c.alone && !held.alone {
				continue
			}
			switch {
			case e.overtook && c.overtakes:
				overtakers = append(overtakers, e)
			case c.overtakes && e.stuck():
				t.overtook, overtakers = true, nil
			case c.overtakes:
				t.waits[e], overtakers = false, nil
				e.urgent = e.urgent || !e.begun
				t.before = e
			default:
				t.waits[e] = t.waits[e] || c.passing
				if c.lane == overtakersLane && !e.overtook {
					t.before = e
				}
			}
		}
		for _, e := range overtakers {
			t.waits[e] = false
		}
	}
	if t.overtook {
		t.before = nil
	}
	m.tasks = append(m.tasks, t)
	m.look()
}

// look finds the tasks that wait for nothing any more, and notes when.
func (m *model) look() {
	m.clock++
	for _, t := range m.tasks {
		for e := range t.waits {
			if e.letGo {
				delete(t.waits, e)
			}
		}
		if t.before != nil && t.before.letGo {
			t.before = nil
		}
		if len(t.waits) == 0 && t.ready == 0 {
			t.ready = m.clock
		}
	}
}

// compare checks that the tasks that have begun meanwhile are those that the model begins.
func (m *model) compare() {
	synctest.Wait()
	for _, urgent := range []bool{false, true} {
		limit, running := m.limit, 0
		if urgent {
			limit = urgentPlaces
		}
		latest, first := 0, m.clock+1 // ready ones that have begun now, and that have not
		for _, t := range m.tasks {
			if t.urgent != urgent {
				continue
			}
			now := t.hasBegun.Load()
			switch {
			case now && t.ready == 0:
				m.Errorf("%s has begun before its turn", t.name)
			case now && !t.begun:
				latest, t.begun = max(latest, t.ready), true
			case !now && t.ready > 0:
				first = min(first, t.ready)
			}
			if t.begun && !t.yielded {
				running++
			}
		}
		switch {
		case running > limit:
			m.Errorf("%d run, urgent %v", running, urgent)
		case running < limit && first <= m.clock:
			m.Errorf("somebody waits although %d run, urgent %v", running, urgent)
		case latest > first:
			m.Errorf("somebody ready at %d has begun before somebody ready at %d", latest, first)
		}
	}
}

func (m *model) submit() {
	m.last++
	t := &modelTask{name: fmt.Sprint(m.last), order: m.randomOrder(), orders: make(chan func())}
	t.task = &task{order: t.order, run: func(*task) {
		t.hasBegun.Store(true)
		for do := range t.orders {
			do()
		}
	}}
	if m.real.submit(t.task) {
		go m.real.runHere(t.task) // ended below
	}
	m.arrives(t)
}

// live are the tasks that have begun.
func (m *model) live() (live []*modelTask) {
	for _, t := range m.tasks {
		if t.begun {
			live = append(live, t)
		}
	}
	return live
}

func (m *model) step(t *modelTask, what int) {
	switch what {
	case 0:
		t.orders <- t.task.yield
		t.yielded = true
	case 1:
		t.orders <- t.task.release
		t.yielded, t.letGo = true, true
	default:
		close(t.orders)
		t.yielded, t.letGo = true, true
		m.tasks = slices.DeleteFunc(m.tasks, func(e *modelTask) bool { return e == t })
	}
	m.look()
}

// run lets that many tasks arrive, and all of them end.
func (m *model) run(tasks int) {
	busy := 1 + m.rand.IntN(30)
	for m.last < tasks || len(m.tasks) > 0 {
		live := m.live()
		switch {
		case m.last < tasks && (len(live) == 0 || len(m.tasks) < busy && m.rand.IntN(2) == 0):
			m.submit()
		case len(live) > 0:
			m.step(live[m.rand.IntN(len(live))], m.rand.IntN(6))
		default:
			m.Errorf("%d tasks wait for nothing", len(m.tasks))
		}
		if m.compare(); m.Failed() {
			m.abandon()
			return
		}
	}
	s := m.real
	s.wait()
	if n := len(s.lanes) + s.normal.running + s.urgent.running + len(s.normal.ready) + len(s.urgent.ready); n != 0 {
		m.Errorf("left behind: %d lanes, %d and %d running", len(s.lanes), s.normal.running, s.urgent.running)
	}
}

// abandon ends all tasks.
func (m *model) abandon() {
	for _, t := range m.tasks {
		close(t.orders)
	}
	m.real.wait()
}
