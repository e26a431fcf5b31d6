package fs

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/fileuri"
)

type lockKey = atomicfile.Key

// locks keep writes to one directory entry apart, so that a condition that was
// checked still holds when the write happens. There is an entry for each write that
// is under way, so their number is bounded by that of the requests.
type locks struct {
	mu   sync.Mutex
	held map[lockKey]*lock
}

type lock struct {
	token chan struct{} // holds a token while locked
	users int           // that hold it or wait for it; guarded by locks.mu
}

// entry is a path that a method changes.
type entry struct {
	uri    string
	follow bool // it is the target of the path's links that changes
}

// lockEntries locks what the entries stand for. Those that stand for nothing, since
// they are no good URI or have no directory, are left to fail later.
func (l *locks) lockEntries(ctx context.Context, entries []entry) (unlock func(), err error) {
	var keys []lockKey
	for _, e := range entries {
		path, err := fileuri.Path(e.uri)
		if err != nil {
			continue
		}
		target, err := resolveEntry(path, e.follow)
		if err != nil {
			continue
		}
		keys = append(keys, target.Key())
		target.Close()
	}
	return l.lock(ctx, keys...)
}

// lock locks keys, in an order of their own so that two calls never wait for each
// other.
func (l *locks) lock(ctx context.Context, keys ...lockKey) (unlock func(), err error) {
	slices.SortFunc(keys, func(a, b lockKey) int {
		return cmp.Or(cmp.Compare(a.Dev, b.Dev), cmp.Compare(a.Ino, b.Ino), cmp.Compare(a.Name, b.Name))
	})
	keys = slices.Compact(keys)
	for i, key := range keys {
		if err := l.acquire(ctx, key); err != nil {
			l.release(keys[:i])
			return nil, err
		}
	}
	return func() { l.release(keys) }, nil
}

func (l *locks) acquire(ctx context.Context, key lockKey) error {
	l.mu.Lock()
	k := l.held[key]
	if k == nil {
		k = &lock{token: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.users++
	l.mu.Unlock()
	select {
	case k.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		l.leave(key)
		return context.Cause(ctx)
	}
}

func (l *locks) release(keys []lockKey) {
	for _, key := range keys {
		l.mu.Lock()
		k := l.held[key]
		l.mu.Unlock()
		<-k.token
		l.leave(key)
	}
}

func (l *locks) leave(key lockKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[key]
	if k.users--; k.users == 0 {
		delete(l.held, key)
	}
}

// resolveEntry finds the directory entry that path stands for: that of its last
// component, or with follow that at the end of its links.
func resolveEntry(path string, follow bool) (*atomicfile.Target, error) {
	if follow {
		return atomicfile.Resolve(path, true)
	}
	return atomicfile.Entry(path)
}
