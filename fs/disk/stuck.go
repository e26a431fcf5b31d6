package disk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A stuckError says which paths of the directory cannot be made what the tree says, each
// for a reason of its own: somebody else's directory is in the way, or something is
// mounted there. They stay in the journal and are tried again by every settle; until then
// what is there counts as known, so that it is not taken for news. All else goes on.
type stuckError struct{ paths map[string]error }

func (e *stuckError) Error() string {
	list := slices.Sorted(maps.Keys(e.paths))
	return fmt.Sprintf("%d paths cannot be brought to the directory: %v", len(list), e.paths[list[0]])
}

func (e *stuckError) Unwrap() []error { return slices.Collect(maps.Values(e.paths)) }

// A stuckList collects the paths of one call that cannot be brought. It is safe for
// concurrent use.
type stuckList struct {
	mu    sync.Mutex
	paths map[string]error
}

// add notes an error about a path if it is the file system's and about that path alone,
// and returns any other.
func (l *stuckList) add(path string, err error) error {
	switch errno, ok := errors.AsType[unix.Errno](err); {
	case !ok, errno == unix.ENOSPC, errno == unix.EDQUOT, errno == unix.EIO:
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paths == nil {
		l.paths = map[string]error{}
	}
	if l.paths[path] == nil {
		l.paths[path] = pathError("bring", path, err)
	}
	return nil
}

func (l *stuckList) has(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paths[path] != nil
}

// err is a *stuckError, nil if there are none.
func (l *stuckList) err() error {
	if len(l.paths) == 0 {
		return nil
	}
	return &stuckError{l.paths}
}

// tolerate takes an error of bring, or none, for what it is: paths that are stuck hold up
// nothing else. Which they are is said once.
func (w *Workspace) tolerate(err error) error {
	stuck, ok := errors.AsType[*stuckError](err)
	if !ok && err != nil {
		return err
	}
	var now map[string]error
	if ok {
		now = stuck.paths
	}
	for path := range now {
		if w.stuck[path] == nil {
			w.log.Warn("the workspace's directory is not what the store says; it is tried again", "err", err)
			break
		}
	}
	for path := range w.stuck {
		if now[path] == nil {
			w.full = true // what happened there was not looked at
			break
		}
	}
	w.stuck, w.stuckDirs = now, map[string]struct{}{}
	for path := range now {
		for path != "" {
			path, _ = split(path)
			w.stuckDirs[path] = struct{}{}
		}
	}
	return nil
}

// isStuck reports whether a path, or a directory above it, cannot be brought.
func (w *Workspace) isStuck(path string) bool {
	for len(w.stuck) > 0 && path != "" {
		if w.stuck[path] != nil {
			return true
		}
		path, _ = split(path)
	}
	return false
}
