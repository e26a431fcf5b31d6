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

// crowd are shared holders of a lane between whose arrivals nobody came who waits for
// them. However many wait for however many, each waits for one crowd.
type crowd struct {
	left   int     // holders that have not let go, and the crowd before if it is not over
	behind []*task // wait until it is over
	next   *crowd  // that this one is counted in the left of
}

// task is one request to be run.
type task struct {
	run   func(*task)
	order Order
	sched *scheduler
	here  bool // runs on the reading goroutine

	// The rest is guarded by scheduler.mu.

	waits   int               // tasks that have not let go and crowds that are not over
	behind  []*task           // tasks that this one is counted in the waits of
	crowds  [maxClaims]*crowd // of each claim that is in one
	held    bool              // waits for a lane that it passes, for a task that does, or for a place
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
	if t.order.quick && s.normal.running == 0 && len(s.normal.ready) == 0 {
		s.places(t).running++
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
	overtakes := c.overtakes && l.alone != nil && l.alone.held
	if l.alone != nil && !overtakes {
		t.waits++
		l.alone.behind = append(l.alone.behind, t)
		t.held = t.held || c.passing || c.alone && l.alone.held
	}
	if c.alone && l.shared != nil && l.shared.left > 0 {
		t.waits++
		l.shared.behind = append(l.shared.behind, t)
		t.held = t.held || c.passing
	}
	switch {
	case c.passing:
		return
	case c.alone && !overtakes:
		l.alone, l.shared = t, nil
	default: // those behind one that overtakes also wait for what it overtakes
		l.join()
		t.crowds[i] = l.shared
	}
	l.holders++
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
func (s *scheduler) wake(tasks []*task) {
	for _, t := range tasks {
		if t.waits--; t.waits == 0 {
			s.makeReady(t)
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
	t.held = true
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
			t.held = false
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
		s.wake(t.behind)
		t.behind = nil
	}
	s.start()
}

// wait returns when all tasks have ended.
func (s *scheduler) wait() { s.wg.Wait() }
