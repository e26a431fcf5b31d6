package mirror

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Retries is what mirrors that share it try again after a pause. It is safe for concurrent use.
type Retries struct {
	full      waiting // no room at the remote
	fullHere  waiting // no room here, since connect
	unread    waiting // cannot be read here
	unwritten waiting // is in a tree, and could not be written to its directory
}

func (r *Retries) all() []*waiting { return []*waiting{&r.full, &r.fullHere, &r.unread, &r.unwritten} }

// TriesAgain is when the next Sync tries again what a side had no room for, or could not write, or what cannot be
// read here; zero if there is no such thing. Calls of a mirror do not wait for it.
func (r *Retries) TriesAgain() (first time.Time) {
	for _, n := range r.all() {
		if at := n.next(); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// looked notes that all was tried whose pause is over. unwritten says that a side could not write something,
// which each call tries again.
func (r *Retries) looked(unwritten bool) {
	if !unwritten || r.unwritten.isDue() {
		r.unwritten.forget()
	}
	if unwritten && r.unwritten.none() {
		r.unwritten.add("", "")
	}
	for _, n := range r.all() {
		n.rest()
	}
}

// waiting has local paths whose content one side has had no room for, or could not read. They are changes
// still, and are tried again after a pause that grows with each try, or once they are another version.
type waiting struct {
	mu    sync.Mutex
	paths map[string]string // the print of the version, by path
	// reasons has why there is no room for paths, for which the disk is not simply full.
	reasons map[string]syscall.Errno
	due     time.Time     // when they are tried again
	pause   time.Duration // until due from when they were tried last, 0 once nothing waits
}

// forget has all tried again.
func (n *waiting) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paths, n.reasons = nil, nil
}

// explain notes the reason for which there is no room for a path.
func (n *waiting) explain(path string, err error) {
	reason := noRoomReason(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	if delete(n.reasons, path); reason == syscall.ENOSPC {
		return
	}
	if n.reasons == nil {
		n.reasons = map[string]syscall.Errno{}
	}
	n.reasons[path] = reason
}

// reason is that for which there is no room for a path.
func (n *waiting) reason(path string) syscall.Errno {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.reasons[path], syscall.ENOSPC)
}

// rest lets the next pause be a short one if nothing waits.
func (n *waiting) rest() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.paths) == 0 {
		n.pause = 0
	}
}

func (n *waiting) add(path, print string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.paths) == 0 {
		n.paths = map[string]string{}
		n.putOff()
	}
	n.paths[path] = print
}

func (n *waiting) has(path string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, is := n.paths[path]
	return is
}

// still reports whether a version of a path is one that did not fit.
func (n *waiting) still(path, print string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, is := n.paths[path]
	return is && was == print
}

// drop forgets a path.
func (n *waiting) drop(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.paths, path)
	delete(n.reasons, path)
}

func (n *waiting) none() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.paths) == 0
}

// isDue reports whether there are paths that are to be tried again.
func (n *waiting) isDue() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.paths) > 0 && !time.Now().Before(n.due)
}

// next is when paths are to be tried again, zero if there are none.
func (n *waiting) next() (at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.paths) > 0 {
		at = n.due
	}
	return at
}

// again has none of the paths tried again for a while: they were.
func (n *waiting) again() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.putOff()
}

func (n *waiting) putOff() {
	n.pause = min(max(2*n.pause, minPause), maxPause)
	n.due = time.Now().Add(n.pause)
}

// some returns up to limit of the paths, at random.
func (n *waiting) some(limit int) (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for path := range n.paths {
		if len(list) == limit {
			break
		}
		list = append(list, path)
	}
	return list
}

// list returns the paths in their order.
func (n *waiting) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.paths))
}
