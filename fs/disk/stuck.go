package disk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// A stuckError says which paths of the directory cannot be made what the tree says, each
// for a reason of its own: somebody else's directory is in the way, something is mounted
// there, the disk has no room for it. They stay in the journal and are tried again by every
// settle; until then what is there counts as known, so that it is not taken for news. All
// else goes on.
type stuckError struct{ paths map[string]stuckPath }

// A stuckPath says why a path cannot be brought.
type stuckPath struct {
	err error
	// mode: it is a directory that only has the wrong mode. What is in it is settled.
	mode bool
	// counted is how often TakeLate had been called when the path could not be brought first, -1 if
	// that was before the workspace was opened.
	counted int64
	// before: the journal had the path when the workspace was opened, and it could not be brought since.
	before bool
}

func (e *stuckError) Error() string {
	list := slices.Sorted(maps.Keys(e.paths))
	return fmt.Sprintf("%d paths cannot be brought to the directory: %v", len(list), e.paths[list[0]].err)
}

func (e *stuckError) Unwrap() []error {
	var list []error
	for _, p := range e.paths {
		list = append(list, p.err)
	}
	return list
}

func (e *stuckError) has(path string) bool {
	_, ok := e.paths[path]
	return ok
}

// A stuckList collects the paths of one call that cannot be brought. It is safe for
// concurrent use.
type stuckList struct {
	mu    sync.Mutex
	paths map[string]stuckPath
	kept  map[string]struct{} // those that the journal has
	full  bool                // something did not fit on the disk
}

// stays fills a list with paths that are not tried now. The journal has them.
func (l *stuckList) stays(paths map[string]stuckPath) {
	l.paths, l.kept = maps.Clone(paths), make(map[string]struct{}, len(paths))
	for path := range paths {
		l.kept[path] = struct{}{}
	}
}

// add notes an error about a path if it is the file system's, and returns any other.
func (l *stuckList) add(path string, err error) error { return l.note(path, err, false) }

// addMode is add for a directory whose mode cannot be set.
func (l *stuckList) addMode(path string, err error) error { return l.note(path, err, true) }

func (l *stuckList) note(path string, err error, mode bool) error {
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if isFull(errno) {
		l.full = true
	}
	if l.paths == nil {
		l.paths = map[string]stuckPath{}
	}
	if _, ok := l.paths[path]; !ok {
		l.paths[path] = stuckPath{err: pathError("bring", path, err), mode: mode}
	}
	return nil
}

func (l *stuckList) has(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.paths[path]
	return ok
}

// noRoom reports whether something did not fit on the disk in this call.
func (l *stuckList) noRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}

// left are the paths that the journal is to have when the rows of a page are gone from it,
// with what they purge.
func (l *stuckList) left(p page) map[string]bool {
	out := map[string]bool{}
	for _, it := range p.items {
		if l.has(it.path) {
			out[it.path] = out[it.path] || it.purge
		}
	}
	for path := range l.paths {
		if _, ok := l.kept[path]; !ok {
			out[path] = out[path] || false
		}
	}
	return out
}

// journaled notes that the journal has some paths.
func (l *stuckList) journaled(paths map[string]bool) {
	if l.kept == nil && len(paths) > 0 {
		l.kept = map[string]struct{}{}
	}
	for path := range paths {
		l.kept[path] = struct{}{}
	}
}

// err is a *stuckError, nil if there are none.
func (l *stuckList) err() error {
	if len(l.paths) == 0 {
		return nil
	}
	return &stuckError{l.paths}
}

// tolerate takes an error of bring, or none, and keeps the stuck paths that it names: they hold up
// nothing else. It logs them once. Paths that were not stuck before get before as their counted.
func (w *Workspace) tolerate(err error, before int64) error {
	stuck, ok := errors.AsType[*stuckError](err)
	if !ok && err != nil {
		return err
	}
	var now map[string]stuckPath
	if ok {
		now = stuck.paths
	}
	for path := range now {
		if _, known := w.stuck[path]; !known {
			w.log.Warn("the workspace's directory is not what the store says; it is tried again", "err", err)
			break
		}
	}
	for path, p := range now {
		p.counted, p.before = before, w.fresh
		if old, known := w.stuck[path]; known {
			p.counted, p.before = old.counted, old.before
		}
		now[path] = p
	}
	for path := range w.stuck {
		if _, still := now[path]; !still {
			w.full = true // what happened there was not looked at
			break
		}
	}
	w.fresh = false
	w.stuck, w.stuckDirs, w.onlyRoom = now, map[string]struct{}{}, len(now) > 0
	for _, p := range now {
		w.onlyRoom = w.onlyRoom && isFull(p.err)
	}
	w.skips.stuck(now)
	for path := range now {
		for path != "" {
			path = slashpath.Dir(path)
			w.stuckDirs[path] = struct{}{}
		}
	}
	return nil
}

// hopeless reports whether all that waits does so for want of room, and the disk has room for no file
// at all, also once those are closed that were removed. To try each path would take longer with each call of
// many that bring some more.
func (w *Workspace) hopeless(root int) bool {
	if !w.onlyRoom || !w.noFiles(root) {
		return false
	}
	w.outMu.Lock()
	defer w.outMu.Unlock()
	return len(w.retired) == 0
}

// TakeLate returns how many paths were brought since it was called last, or since Open, that were to
// be brought before that, when they could not be or the process ended.
func (w *Workspace) TakeLate() int {
	w.counted.Add(1)
	return int(w.late.Swap(0))
}

// isLate reports whether a path was to be brought before the last call of TakeLate. planned says that
// the path is being brought by the call that plans it.
func (w *Workspace) isLate(path string, planned bool) bool {
	p, waited := w.stuck[path]
	if !waited {
		return !planned // the journal had it when the workspace was opened
	}
	return p.counted < w.counted.Load()
}

// wasLeft reports whether the journal had a path, or something above it, when the workspace was opened, and it could not
// be brought since.
func (w *Workspace) wasLeft(path string) bool {
	for ; !w.fresh && path != ""; path = slashpath.Dir(path) {
		if p, is := w.stuck[path]; is {
			return p.before
		}
	}
	return w.fresh
}

// isStuck reports whether a path, or something above it, cannot be brought.
func (w *Workspace) isStuck(path string) bool { return isStuck(w.stuck, path) }

// isStuck reports whether a path, or something above it, is among stuck ones.
func isStuck(stuck map[string]stuckPath, path string) bool {
	for at := path; len(stuck) > 0 && at != ""; at = slashpath.Dir(at) {
		if p, ok := stuck[at]; ok && (at == path || !p.mode) {
			return true
		}
	}
	return false
}
