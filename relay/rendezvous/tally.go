package rendezvous

import (
	"maps"
	"sync"
)

// A tally counts the entries that each token has in one bucket of the State, or in one
// bucket for one environment, so that it
// has no more than it may. A node counts what it makes and deletes itself, and now and
// then all there is: of several nodes each lets a token have that many.
type tally struct {
	mu  sync.Mutex
	all map[string]int // by token id, or tenancy
}

// add counts one more, unless the token has most already.
func (t *tally) add(token string, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[token] >= most {
		return false
	}
	if t.all == nil {
		t.all = map[string]int{}
	}
	t.all[token]++
	return true
}

// less takes one back.
func (t *tally) less(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[token] > 0 {
		t.all[token]--
	}
}

// now is a copy of the counts, for recount.
func (t *tally) now() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.all)
}

// recount believes listed, which is t's from now on, and what has changed since before,
// when the list was asked for.
func (t *tally) recount(before, listed map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for token, n := range t.all {
		if n += listed[token] - before[token]; n > 0 {
			listed[token] = n
		} else {
			delete(listed, token)
		}
	}
	t.all = listed
}
