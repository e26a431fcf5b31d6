package sqlite

import (
	"context"
	"errors"
	"sync"
)

// A group runs what many ask for in few transactions: what is asked for while one is
// under way is done in the next, together. One of those who ask carries a transaction
// out, and the first of those who came meanwhile the next.
type group struct {
	db *DB

	mu      sync.Mutex
	busy    bool // somebody carries one out
	waiting []*groupJob
}

// A groupJob is one thing to be done.
type groupJob struct {
	do   func(*conn) error
	err  error
	turn chan bool // true: carry the waiting ones out; false: done, with err
}

// update runs fn in a transaction, and returns when that is committed. fn may run more
// than once; when it fails, it has done nothing, and others' do not fail of it.
func (g *group) update(ctx context.Context, fn func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	job := &groupJob{do: fn, turn: make(chan bool, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, job)
	lead := !g.busy
	g.busy = true
	g.mu.Unlock()
	if lead || <-job.turn {
		g.lead()
	}
	return job.err
}

// lead carries out what waits, the caller's own first.
func (g *group) lead() {
	// What others wait for is done even if the caller does not wait any more.
	ctx := context.Background()
	var jobs []*groupJob
	err := g.db.update(ctx, func(c *conn) error {
		jobs = g.take() // now that it is our turn to write: the more the better
		for _, job := range jobs {
			if err := job.do(c); err != nil {
				return err
			}
		}
		return nil
	})
	if jobs == nil { // it did not come to that
		jobs = g.take()
	}
	for _, job := range jobs {
		job.err = err
		if err != nil && len(jobs) > 1 && !errors.Is(err, ErrClosed) {
			job.err = g.db.update(ctx, job.do) // whoever is to blame
		}
	}
	g.mu.Lock()
	if g.busy = len(g.waiting) > 0; g.busy {
		g.waiting[0].turn <- true
	}
	g.mu.Unlock()
	for _, job := range jobs[1:] {
		job.turn <- false
	}
}

func (g *group) take() []*groupJob {
	g.mu.Lock()
	defer g.mu.Unlock()
	jobs := g.waiting
	g.waiting = nil
	return jobs
}
