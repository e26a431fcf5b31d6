package workspace

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// CollectInterval is how often an open workspace collects garbage. The first time is soon
// after it was opened, for those that are not open for that long.
const CollectInterval = time.Hour

// firstCollect is when that is.
const firstCollect = time.Minute

// A keeper keeps the store small, beside everything else.
type keeper struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

// keepHouse starts a keeper; its close stops it. Versions that something took the place of
// are kept within bounds.
func keepHouse(db *sqlite.DB, forest *tree.Forest, bounds lost.Bounds, log *slog.Logger) *keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{stop: stop}
	k.done.Go(func() { // ends with ctx; close waits for it
		timer := time.NewTimer(firstCollect)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			trimmed, err := lost.Trim(ctx, forest, bounds, time.Now())
			if trimmed.Versions > 0 {
				log.Info("versions that something took the place of are forgotten", "versions", trimmed.Versions, "bytes", trimmed.Bytes)
			}
			if ctx.Err() == nil && err != nil {
				log.Error("versions that something took the place of were not forgotten", "err", err)
			}
			collected, err := collect(ctx, db, forest, tree.Policy{})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.Error("garbage was not collected", "err", err)
			case collected.Chunks > 0:
				log.Info("garbage collected", "chunks", collected.Chunks, "bytes", collected.Bytes)
			}
			timer.Reset(CollectInterval)
		}
	})
	return k
}

func (k *keeper) close() {
	k.stop()
	k.done.Wait()
}

// collect deletes garbage and gives its room back.
func collect(ctx context.Context, db *sqlite.DB, forest *tree.Forest, policy tree.Policy) (tree.Collected, error) {
	c, err := forest.Collect(ctx, policy)
	if err != nil {
		return c, err
	}
	return c, db.Shrink(ctx)
}

// Collect does so now.
func (w *Workspace) Collect(ctx context.Context, policy tree.Policy) (tree.Collected, error) {
	return collect(ctx, w.DB, w.Forest, policy)
}
