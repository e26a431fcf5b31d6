package workspace

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// CollectInterval is how often an open workspace is tidied. The first time is soon after
// it was opened, for those that are not open for that long.
const CollectInterval = 15 * time.Minute

const (
	// firstCollect is when that is.
	firstCollect = time.Minute
	// urgentCollect is how soon after the last time it is tidied again when the disk is full.
	urgentCollect = 10 * time.Second
)

// Bounds say how small a store is kept.
type Bounds struct {
	Lost    lost.Bounds
	Garbage Garbage
}

// A keeper keeps the store small, beside everything else.
type keeper struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	urgent chan struct{} // holds a token when the disk is full
	turn   chan struct{} // is full while somebody tidies: the room of the reserve is for one
}

func newKeeper() *keeper {
	return &keeper{urgent: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// alone runs fn when nobody else tidies.
func (k *keeper) alone(ctx context.Context, fn func() error) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-k.turn }()
	return fn()
}

// full has the store tidied soon. It never blocks.
func (k *keeper) full() {
	select {
	case k.urgent <- struct{}{}:
	default:
	}
}

// keepHouse starts a keeper; its close stops it.
func (k *keeper) keepHouse(db *sqlite.DB, forest *tree.Forest, bounds Bounds, log *slog.Logger) {
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	k.done.Go(func() { // ends with ctx; close waits for it
		timer := time.NewTimer(firstCollect)
		defer timer.Stop()
		var last time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			case <-k.urgent:
				if wait := urgentCollect - time.Since(last); wait > 0 {
					timer.Reset(wait)
					continue
				}
			}
			var done Tidied
			err := k.alone(ctx, func() (err error) {
				done, err = Tidy(ctx, db, forest, bounds)
				return err
			})
			if ctx.Err() != nil {
				return
			}
			done.log(log)
			if err != nil {
				log.Error("the store was not made smaller", "err", err)
			}
			last = time.Now()
			timer.Reset(CollectInterval)
		}
	})
}

func (k *keeper) close() {
	if k.stop != nil {
		k.stop()
	}
	k.done.Wait()
}

// Tidied is what Tidy has done.
type Tidied struct {
	Lost      lost.Trimmed
	Collected tree.Collected
}

func (t *Tidied) log(log *slog.Logger) {
	if t.Lost.Versions > 0 {
		log.Info("versions that something took the place of are forgotten", "versions", t.Lost.Versions, "bytes", t.Lost.Bytes)
	}
	if t.Collected.Chunks > 0 {
		log.Info("garbage collected", "chunks", t.Collected.Chunks, "bytes", t.Collected.Bytes)
	}
	if t.Collected.Later > 0 {
		log.Warn("objects that are mostly garbage are written anew once there is room", "objects", t.Collected.Later)
	}
}

// Tidy forgets lost versions and deletes garbage beyond bounds, and gives their room back.
func Tidy(ctx context.Context, db *sqlite.DB, forest *tree.Forest, bounds Bounds) (done Tidied, err error) {
	var trimmed, collected error
	done.Lost, trimmed = lost.Trim(ctx, forest, bounds.Lost, time.Now())
	done.Collected, collected = collect(ctx, db, forest, bounds.Garbage.policy(db.Path()))
	return done, errors.Join(trimmed, collected)
}

// collect deletes garbage and gives its room back. Where there is no room to do so the reserve
// of the store gives some.
func collect(ctx context.Context, db *sqlite.DB, forest *tree.Forest, policy tree.Policy) (tree.Collected, error) {
	policy.Few = db.Tight()
	c, err := collectOnce(ctx, db, forest, policy)
	if errors.Is(err, sqlitefile.ErrFull) && db.UseReserve() {
		var more tree.Collected
		policy.Few = true
		more, err = collectOnce(ctx, db, forest, policy)
		c.Chunks, c.Bytes, c.Marked, c.Waiting = c.Chunks+more.Chunks, c.Bytes+more.Bytes, c.Marked+more.Marked, more.Waiting
		c.Later = more.Later
	}
	db.KeepReserve()
	return c, err
}

func collectOnce(ctx context.Context, db *sqlite.DB, forest *tree.Forest, policy tree.Policy) (tree.Collected, error) {
	c, err := forest.Collect(ctx, policy)
	if err != nil {
		return c, err
	}
	if free, err := db.FreePages(ctx); err != nil || free == 0 {
		return c, err
	}
	return c, db.Shrink(ctx)
}

// Collect deletes garbage now. With now it does so whatever the age of it, but for what a push
// may be about to refer to.
func (w *Workspace) Collect(ctx context.Context, now bool) (tree.Collected, error) {
	var done tree.Collected
	err := w.keep.alone(ctx, func() (err error) {
		done, err = Collect(ctx, w.DB, w.Forest, w.garbage, now)
		return err
	})
	(&Tidied{Collected: done}).log(w.log)
	return done, err
}

// Collect is Workspace.Collect for a store that is no workspace's.
func Collect(ctx context.Context, db *sqlite.DB, forest *tree.Forest, garbage Garbage, now bool) (tree.Collected, error) {
	policy := garbage.policy(db.Path())
	if now {
		policy = tree.Policy{MaxBytes: -1}
	}
	return collect(ctx, db, forest, policy)
}
