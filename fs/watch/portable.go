package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// portable is the backend of systems other than Linux. It watches paths without links;
// a directory that is renamed must be added again.
type portable struct {
	watcher *fsnotify.Watcher
	done    chan struct{}
	told    func(backend, []Event, bool)

	mu    sync.Mutex
	last  ID
	ids   map[string]ID
	paths map[ID]string
}

func newPortableBackend(told func(backend, []Event, bool)) (backend, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("start watching: %w", err)
	}
	p := &portable{
		watcher: w, done: make(chan struct{}), told: told,
		ids: make(map[string]ID), paths: make(map[ID]string),
	}
	go p.read() // ends when close closes the watcher
	return p, nil
}

func (p *portable) add(path string, follow bool) (ID, error) {
	path, err := withoutLinks(path, follow)
	if err != nil {
		return 0, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return 0, &os.PathError{Op: "watch", Path: path, Err: unix.ENOTDIR}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.ids[path]; ok {
		return id, nil
	}
	if err := p.watcher.Add(path); err != nil {
		return 0, err
	}
	p.last++
	p.ids[path], p.paths[p.last] = p.last, path
	return p.last, nil
}

// withoutLinks is path by its real name. Without follow, a link at its end stays.
func withoutLinks(path string, follow bool) (string, error) {
	if follow {
		return filepath.EvalSymlinks(path)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

func (p *portable) remove(id ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if path, ok := p.paths[id]; ok {
		_ = p.watcher.Remove(path) // of a directory that has gone there is nothing to remove
		delete(p.paths, id)
		delete(p.ids, path)
	}
}

func (p *portable) close() {
	_ = p.watcher.Close()
	<-p.done
}

func (p *portable) read() {
	defer close(p.done)
	for {
		select {
		case e, ok := <-p.watcher.Events:
			if !ok {
				return
			}
			if events := p.translate(e); len(events) > 0 {
				p.told(p, events, false)
			}
		case err, ok := <-p.watcher.Errors:
			if !ok {
				return
			}
			if err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
				p.told(p, nil, true)
			}
		}
	}
}

func (p *portable) translate(e fsnotify.Event) (events []Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var op Op
	switch {
	case e.Has(fsnotify.Create):
		op = Create
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename):
		op = Remove
	case e.Op != 0:
		op = Modify
	default:
		return nil
	}
	if id, ok := p.ids[filepath.Dir(e.Name)]; ok && filepath.Dir(e.Name) != e.Name {
		info, err := os.Lstat(e.Name)
		events = append(events, Event{ID: id, Name: filepath.Base(e.Name), Op: op, IsDir: err == nil && info.IsDir(), Moved: op == Remove})
	}
	if id, ok := p.ids[e.Name]; ok {
		events = append(events, Event{ID: id, Op: op})
		if op == Remove { // fsnotify has given it up
			_ = p.watcher.Remove(e.Name)
			delete(p.ids, e.Name)
			delete(p.paths, id)
			events = append(events, Event{ID: id, Op: gone})
		}
	}
	return events
}

// sync cannot know what the system has still to tell.
func (p *portable) sync() bool { return false }
