package disk

import (
	"errors"
	"fmt"
	"sync"

	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/watch"
)

// why says what there is about a name to look at, as bits.
type why uint8

const (
	// whyRead: the content may be another one, whatever else says that it is not.
	whyRead why = 1 << iota
	// whyDeep: all that is below is to be looked at.
	whyDeep
)

// A watcher collects what the system tells of the directory: which names in which
// directories are to be looked at.
type watcher struct {
	sub  *watch.Sub
	stop chan struct{}
	done chan struct{}

	// mu is held while the system is asked to watch a directory, so that what it then
	// tells is not of a directory without a path.
	mu    sync.Mutex
	dirs  map[watch.ID]string
	ids   map[string]watch.ID
	dirty map[string]map[string]why
	count int // of the names in dirty
	lost  bool
	err   error // why a directory could not be watched
	// stirred is closed while there is something to look at.
	stirred chan struct{}
	stirs   bool
	// outClosed: a version that was put off is written no more.
	outClosed bool
	// away: the directory itself was renamed or removed.
	away bool
}

func startWatcher() (*watcher, error) {
	sub, err := watch.NewClosingHub().Subscribe(maxEvents)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		sub: sub, stop: make(chan struct{}), done: make(chan struct{}),
		dirs: map[watch.ID]string{}, ids: map[string]watch.ID{}, dirty: map[string]map[string]why{}, stirred: make(chan struct{}),
	}
	go w.run() // ends with close
	return w, nil
}

// run takes events as they come, so that few of them wait.
func (w *watcher) run() {
	defer close(w.done)
	for {
		select {
		case <-w.stop:
			return
		case <-w.sub.Wake():
			w.fold()
		}
	}
}

func (w *watcher) close() {
	close(w.stop)
	<-w.done
	w.sub.Close()
}

// fold notes the events that have come.
func (w *watcher) fold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, lost := w.sub.Take()
	for _, e := range events {
		path, known := w.dirs[e.ID]
		switch {
		case !known:
		case e.Name != "":
			if !temporary(e.Name) {
				w.note(path, rawname.Encode(e.Name), whyOf(e))
			} else if e.Closed && isOut(e.Name) {
				w.outClosed = true
			}
		case e.Op == watch.Remove && path == "":
			w.away = true
		case e.Op == watch.Modify || e.Op == watch.Create || e.Op == watch.Remove:
			// Of the directory itself; the one that it is in tells as well.
		default:
			delete(w.dirs, e.ID)
			if w.ids[path] == e.ID {
				delete(w.ids, path)
			}
		}
	}
	if lost {
		w.drop()
	}
	if !w.stirs && (w.lost || w.count > 0 || w.outClosed || w.away) {
		w.stirs = true
		close(w.stirred)
	}
}

// whyOf is what an event makes it necessary to look at.
func whyOf(e watch.Event) why {
	switch {
	case e.Closed:
		return whyRead
	case e.IsDir && (e.Op == watch.Create || e.Op == watch.Remove):
		// A directory that comes and goes and comes may be the one that the index knows
		// again; what was looked at in between was another one.
		return whyDeep
	default:
		return 0
	}
}

func (w *watcher) note(dir, name string, look why) {
	if w.lost {
		return
	}
	list := w.dirty[dir]
	if list == nil {
		list = map[string]why{}
		w.dirty[dir] = list
	}
	old, known := list[name]
	if !known {
		if w.count++; w.count > maxDirty {
			w.drop()
			return
		}
	}
	list[name] = old | look
}

// drop gives up the list: all is to be looked at.
func (w *watcher) drop() {
	w.lost, w.count = true, 0
	clear(w.dirty)
}

// take returns what there is to look at because of what has happened before the call;
// lost means all there is.
func (w *watcher) take() (dirty map[string]map[string]why, lost bool) {
	told := w.sub.Sync()
	w.fold()
	w.mu.Lock()
	defer w.mu.Unlock()
	dirty, lost = w.dirty, w.lost || !told
	w.dirty, w.count, w.lost, w.outClosed, w.away = map[string]map[string]why{}, 0, false, false, false
	if w.stirs {
		w.stirred, w.stirs = make(chan struct{}), false
	}
	return dirty, lost
}

// stir is the channel that is closed once take would return something.
func (w *watcher) stir() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stirred
}

// peek calls fn with the names that take would return.
func (w *watcher) peek(fn func(dirty map[string]map[string]why)) {
	w.sub.Sync()
	w.fold()
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(w.dirty)
}

// add watches an open directory.
func (w *watcher) add(fd int, path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Through the descriptor, whatever its path leads to by now.
	id, err := w.sub.Add(fmt.Sprintf("/proc/self/fd/%d", fd), true)
	if err != nil {
		return err
	}
	if old, known := w.ids[path]; known && old != id && w.dirs[old] == path {
		w.sub.Remove(old)
		delete(w.dirs, old)
	}
	w.dirs[id], w.ids[path] = path, id
	return nil
}

// forget watches a directory no more, unless it has another path by now.
func (w *watcher) forget(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, known := w.ids[path]
	if !known {
		return
	}
	delete(w.ids, path)
	if w.dirs[id] == path {
		w.sub.Remove(id)
		delete(w.dirs, id)
	}
}

// fail notes that the directory cannot be watched, at least not all of it.
func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *watcher) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// startWatching begins to watch, if it is wanted and possible.
func (w *Workspace) startWatching(root int) {
	if !w.cfg.Watch {
		return
	}
	err := trusted(root)
	if err == nil {
		w.watch, err = startWatcher()
		w.told.Store(w.watch)
	}
	if err != nil {
		w.notWatched(err)
	}
}

// Stirred returns a channel that is closed once something in the directory may have changed
// since the last Settle; nil if the system does not tell.
func (w *Workspace) Stirred() <-chan struct{} {
	if told := w.told.Load(); told != nil {
		return told.stir()
	}
	return nil
}

// stopWatching gives up watching for good when some directory cannot be watched.
func (w *Workspace) stopWatching() {
	if w.watch == nil {
		return
	}
	if err := w.watch.failed(); err != nil {
		w.told.Store(nil)
		w.watch.close()
		w.watch = nil
		w.notWatched(err)
	}
}

func (w *Workspace) notWatched(err error) {
	w.full = true
	hint := ""
	if errors.Is(err, watch.ErrLimit) {
		hint = "raise the limit that the error names"
	}
	w.log.Warn("the workspace's directory cannot be watched; all of it is looked at each time instead", "dir", w.cfg.Dir, "err", err, "hint", hint)
}

// watchDir has the system tell of changes in an open directory, which is done before it is
// read. What is watched under its path may be another one, so it is asked for each time.
func (w *Workspace) watchDir(fd int, path string) {
	if w.watch == nil || w.watch.failed() != nil {
		return
	}
	err := trusted(fd)
	if err == nil {
		err = w.watch.add(fd, path)
	}
	if err != nil {
		w.watch.fail(fmt.Errorf("watch %s: %w", path, err))
	}
}

// unwatch ends the watches of a directory and those below it.
func (w *Workspace) unwatch(path string) {
	if w.watch == nil {
		return
	}
	n := w.index.find(path)
	if n == nil || n.stat.kind != kindDir {
		return
	}
	w.watch.forget(path)
	n.each(func(k *node) {
		if k.stat.kind == kindDir {
			w.watch.forget(k.path())
		}
	})
}
