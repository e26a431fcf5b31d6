package rpc

import "sync"

// urgentPlaces is how many urgent tasks of a scheduler run at a time.
const urgentPlaces = 4

// scheduler runs tasks in a limited number of places. A task becomes ready once the
// earlier tasks that its order names are done with their lanes, and ready tasks run in
// that order.
type scheduler struct {
	mu     sync.Mutex
	normal places
	urgent places // of urgent tasks, whatever the others do
	lanes  map[string]*taskLane
	wg     sync.WaitGroup
}

// places bounds the tasks that run at a time.
type places struct {
	limit   int
	running int     // tasks that have a place
	ready   []*task // may run as soon as there is a place
}

// taskLane is the state of one lane; it exists while tasks hold it.
type taskLane struct {
	holders int
	// alone is the latest holder that is alone; nil once it has let go. It waits for
	// every holder before it.
	alone *task
	// shared are the latest holders that arrived after that one; nil if there were none.
	shared *crowd
}

// crowd are shared holders of a lane that arrived one after the other, without a task in
// between that waits for them. A task that waits for many holders waits for one crowd.
type crowd struct {
	left   int      // holders that have not let go, and the crowd before if it is not over
	behind []waiter // wait until it is over
	next   *crowd   // that this one is counted in the left of
}

// waiter is a task that one of its claims has wait.
type waiter struct {
	task  *task
	claim int
}

// task is one request to be run.
type task struct {
	run   func(*task)
	order Order
	sched *scheduler
	here  bool // runs on the reading goroutine

	// The rest is guarded by scheduler.mu.

	waits   int               // tasks that have not let go and crowds that are not over
	passes  int               // those of them that it waits for in lanes that it passes
	behind  []waiter          // tasks that this one is counted in the waits of
	before  [maxClaims]*task  // that each claim waits for, to hold the lane after it
	crowds  [maxClaims]*crowd // of each claim that is in one
	begun   bool              // has had a place
	yielded bool              // has given up its place
	letGo   bool              // has let go of its lanes
}

func newScheduler(limit int) *scheduler {
	return &scheduler{normal: places{limit: limit}, urgent: places{limit: urgentPlaces}, lanes: make(map[string]*taskLane)}
}

// submit takes a task whose order is not Inline. When nothing runs or waits it returns
// true for one that is quick: the caller is to run it at once, by runHere.
func (s *scheduler) submit(t *task) (here bool) {
	t.sched = s
	s.wg.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range t.order.count {
		s.claim(t, i)
	}
	if t.waits > 0 {
		return false
	}
	if p := s.places(t); t.order.quick && p.running == 0 && len(p.ready) == 0 {
		p.running++
		t.begun = true
		return true
	}
	s.makeReady(t)
	s.start()
	return false
}

// claim has t wait for the holders of the lane of its claim i, and hold the lane.
func (s *scheduler) claim(t *task, i int) {
	c := &t.order.claims[i]
	l := s.lanes[c.lane]
	if l == nil {
		if c.passing {
			return
		}
		l = new(taskLane)
		s.lanes[c.lane] = l
	}
	before, overtakes := l.alone, false
	if c.overtakes {
		before, overtakes = l.alone.overtaken(c.lane)
		before.hurry(c.lane)
	}
	if before != nil {
		before.behind = append(before.behind, waiter{t, i})
		t.wait(c)
	}
	if c.alone && l.shared != nil && l.shared.left > 0 {
		l.shared.behind = append(l.shared.behind, waiter{t, i})
		t.wait(c)
	}
	switch {
	case c.passing:
		return
	case c.alone && !overtakes:
		t.before[i] = before
		l.alone, l.shared = t, nil
	default: // those behind one that overtakes also wait for what it overtakes
		l.join()
		t.crowds[i] = l.shared
	}
	l.holders++
}

// wait counts one thing more that t waits for, because of its claim c.
func (t *task) wait(c *claim) {
	t.waits++
	if c.passing {
		t.passes++
	}
}

// overtaken returns which holder one that overtakes waits for, t being the latest that is
// alone: the latest that is not held up. It also returns whether there are later ones.
func (t *task) overtaken(lane string) (before *task, overtakes bool) {
	before = t
	for at := t; at != nil; at = at.holderBefore(lane) {
		if !at.begun && (at.waits == 0 || at.passes > 0) {
			before, overtakes = at.holderBefore(lane), true
		}
	}
	return before, overtakes
}

// hurry gives t and those that it waits for in the lane the places of urgent tasks: such a
// task waits for them.
func (t *task) hurry(lane string) {
	for ; t != nil && !t.begun; t = t.holderBefore(lane) {
		t.order.urgent = true
	}
}

// holderBefore is the holder that t waits for to hold the lane alone; nil if there is none.
func (t *task) holderBefore(lane string) *task {
	for i := range t.order.count {
		if t.before[i] != nil && t.order.claims[i].lane == lane {
			return t.before[i]
		}
	}
	return nil
}

// join adds a holder to the latest crowd, or to a new one if somebody waits for that.
func (l *taskLane) join() {
	switch before := l.shared; {
	case before == nil:
		l.shared = new(crowd)
	case len(before.behind) > 0:
		l.shared = &crowd{left: 1}
		before.next = l.shared
	}
	l.shared.left++
}

// leave undoes claim.
func (s *scheduler) leave(t *task, i int) {
	c := &t.order.claims[i]
	if c.passing {
		return
	}
	l := s.lanes[c.lane]
	if l.alone == t {
		l.alone = nil
	}
	if l.holders--; l.holders == 0 {
		delete(s.lanes, c.lane)
	}
	for crowd := t.crowds[i]; crowd != nil; crowd = crowd.next {
		if crowd.left--; crowd.left > 0 {
			return
		}
		s.wake(crowd.behind)
		crowd.behind = nil
	}
}

// wake tells tasks that one thing less is there to wait for.
func (s *scheduler) wake(waiters []waiter) {
	for _, w := range waiters {
		if w.task.order.claims[w.claim].passing {
			w.task.passes--
		}
		if w.task.waits--; w.task.waits == 0 {
			s.makeReady(w.task)
		}
	}
}

// places returns where t runs.
func (s *scheduler) places(t *task) *places {
	if t.order.urgent {
		return &s.urgent
	}
	return &s.normal
}

func (s *scheduler) makeReady(t *task) {
	p := s.places(t)
	p.ready = append(p.ready, t)
}

// runHere runs a task that submit has given back.
func (s *scheduler) runHere(t *task) {
	defer s.wg.Done()
	defer t.release()
	t.run(t)
}

// start runs ready tasks while there are places.
func (s *scheduler) start() {
	for _, p := range []*places{&s.urgent, &s.normal} {
		for p.running < p.limit && len(p.ready) > 0 {
			t := p.ready[0]
			p.ready[0] = nil
			p.ready = p.ready[1:]
			p.running++
			t.begun = true
			s.launch(t)
		}
	}
}

func (s *scheduler) launch(t *task) {
	go func() { // waited for by wait
		defer s.wg.Done()
		defer t.release()
		t.run(t)
	}()
}

// yield gives up the place of t, which goes on. Only the first call counts.
func (t *task) yield() {
	s := t.sched
	if s == nil {
		return // inline
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yield(t)
	s.start()
}

func (s *scheduler) yield(t *task) {
	if !t.yielded {
		t.yielded = true
		s.places(t).running--
	}
}

// release gives up the task's place and its lanes. Only the first call counts.
func (t *task) release() {
	s := t.sched
	if s == nil {
		return // inline
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yield(t)
	if !t.letGo {
		t.letGo = true
		for i := range t.order.count {
			s.leave(t, i)
		}
		for _, w := range t.behind {
			if w.task.before[w.claim] == t {
				w.task.before[w.claim] = nil
			}
		}
		s.wake(t.behind)
		t.behind = nil
	}
	s.start()
}

// wait returns when all tasks have ended.
func (s *scheduler) wait() { s.wg.Wait() }
