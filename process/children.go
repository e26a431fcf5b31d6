package process

import "sync"

// children are the pids of this program's children that are waited for by pid, so
// that the reaper leaves their statuses alone.
var children childTable

type childTable struct {
	// forking is held for reading from before a fork until the child is in pids, and
	// for writing while orphans are told from children. A fork takes a millisecond.
	forking sync.RWMutex

	mu   sync.Mutex
	pids map[int]struct{}
}

// fork runs fn, which returns the pid of a new child or 0.
func (t *childTable) fork(fn func() int) {
	t.forking.RLock()
	defer t.forking.RUnlock()
	pid := fn()
	if pid == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pids == nil {
		t.pids = make(map[int]struct{})
	}
	t.pids[pid] = struct{}{}
}

// remove is called once pid has been waited for.
func (t *childTable) remove(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pids, pid)
}

func (t *childTable) has(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.pids[pid]
	return ok
}
