package rpc

import "sync"

// scheduler runs tasks on at most limit goroutines at a time, in the order that
// their lanes ask for.
type scheduler struct {
	limit int

	mu      sync.Mutex
	running int
	ready   []*task // may run as soon as there is a place
	lanes   map[string]*taskLane
	wg      sync.WaitGroup
}

// taskLane is the state of one lane; it exists while it has tasks.
type taskLane struct {
	waiting []*task
	active  int // of waiting's former members, now ready or running
	serial  bool
}

// task is one request to be run.
type task struct {
	run   func(*task)
	order Order
	sched *scheduler
	here  bool // runs on the reading goroutine

	released bool // guarded by scheduler.mu
}

func newScheduler(limit int) *scheduler {
	return &scheduler{limit: limit, lanes: make(map[string]*taskLane)}
}

// submit takes a task whose order is not Inline. When nothing runs or waits it returns
// true for one that is quick: the caller is to run it at once, by runHere.
func (s *scheduler) submit(t *task) (here bool) {
	t.sched = s
	s.wg.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := s.running == 0 && len(s.ready) == 0
	if t.order.kind == concurrent {
		s.ready = append(s.ready, t)
	} else {
		l := s.lanes[t.order.lane]
		if l == nil {
			l = new(taskLane)
			s.lanes[t.order.lane] = l
		}
		l.waiting = append(l.waiting, t)
		s.promote(l)
	}
	if t.order.quick && idle && len(s.ready) == 1 && s.ready[0] == t {
		s.ready[0], s.ready = nil, s.ready[:0]
		s.running++
		return true
	}
	s.start()
	return false
}

// runHere runs a task that submit has given back.
func (s *scheduler) runHere(t *task) {
	defer s.wg.Done()
	defer t.release()
	t.run(t)
}

// promote makes ready what the lane lets run.
func (s *scheduler) promote(l *taskLane) {
	for len(l.waiting) > 0 {
		next := l.waiting[0]
		if l.active > 0 && (l.serial || next.order.kind == serial) {
			return
		}
		l.serial = next.order.kind == serial
		l.active++
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		s.ready = append(s.ready, next)
	}
}

// start runs ready tasks while there are places.
func (s *scheduler) start() {
	for s.running < s.limit && len(s.ready) > 0 {
		t := s.ready[0]
		s.ready[0] = nil
		s.ready = s.ready[1:]
		s.running++
		go func() { // waited for by wait
			defer s.wg.Done()
			defer t.release()
			t.run(t)
		}()
	}
}

// release gives up the task's place and its turn in the lane. Only the first call
// counts.
func (t *task) release() {
	s := t.sched
	if s == nil {
		return // inline
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	s.running--
	if t.order.kind != concurrent {
		l := s.lanes[t.order.lane]
		l.active--
		s.promote(l)
		if l.active == 0 && len(l.waiting) == 0 {
			delete(s.lanes, t.order.lane)
		}
	}
	s.start()
}

// wait returns when all tasks have ended.
func (s *scheduler) wait() { s.wg.Wait() }
