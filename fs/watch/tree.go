package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// Budget bounds the directories of several Trees together.
type Budget struct {
	Max  int64
	used atomic.Int64
}

func (b *Budget) take() bool {
	if b == nil {
		return true
	}
	if b.used.Add(1) > b.Max {
		b.used.Add(-1)
		return false
	}
	return true
}

func (b *Budget) give() {
	if b != nil {
		b.used.Add(-1)
	}
}

// ErrBudget is the error for a tree with more directories than its Budget has left.
var ErrBudget = errors.New("too many directories to watch")

// Options describe a Tree.
type Options struct {
	// Path is a directory, or a file, which is then watched through its directory so
	// that it can be replaced.
	Path string
	// Recursive has the directories below Path watched too.
	Recursive bool
	// Exclude, if set, reports whether a path relative to Path is not told of, nor
	// what is below it.
	Exclude func(rel string) bool
	// Budget, if set, bounds the directories.
	Budget *Budget
	// Limit bounds the changes that wait to be taken.
	Limit int
}

// Tree tells of the changes below a path.
type Tree struct {
	options Options
	sub     *Sub
	only    string // the name that is watched, when Path is a file
	root    ID
	cancel  context.CancelFunc
	done    chan struct{}
	pending pending

	// The rest belongs to the goroutine, once it runs.
	dirs  map[ID]string
	ids   map[string]ID
	above ID // the directory that Path is in, while nothing is there; else 0

	count atomic.Int64
}

// Watch begins to watch. Everything that changes after it has returned is told. A
// directory that is removed or moved away is told of as that; one that then comes in its
// place is watched with all that it has, unless what Path is in has gone as well. What is
// mounted is not told of; what is unmounted is, as lost.
func (h *Hub) Watch(ctx context.Context, o Options) (*Tree, error) {
	info, err := os.Stat(o.Path)
	if err != nil {
		return nil, err
	}
	sub, err := h.Subscribe(o.Limit)
	if err != nil {
		return nil, err
	}
	t := &Tree{
		options: o, sub: sub, done: make(chan struct{}),
		pending: pending{limit: o.Limit, wake: make(chan struct{}, 1), kinds: make(map[string]Kind)},
		dirs:    make(map[ID]string), ids: make(map[string]ID),
	}
	dir := o.Path
	if !info.IsDir() {
		dir, t.only = filepath.Dir(o.Path), filepath.Base(o.Path)
		t.options.Recursive = false
	}
	if t.root, err = t.addDirectory(dir, true); err == nil && t.options.Recursive {
		err = t.scan(ctx, dir, false)
	}
	if err != nil {
		t.dropAll()
		sub.Close()
		return nil, err
	}
	var runCtx context.Context
	runCtx, t.cancel = context.WithCancel(context.Background())
	go t.run(runCtx) // ends with Close
	return t, nil
}

// Directories is how many are watched now.
func (t *Tree) Directories() int { return int(t.count.Load()) }

// Close ends the watch, and a Next that waits.
func (t *Tree) Close() {
	t.cancel()
	<-t.done
}

func (t *Tree) run(ctx context.Context) {
	defer close(t.done)
	defer t.pending.close()
	defer t.sub.Close()
	defer t.dropAll()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.sub.Wake():
		}
		events, lost := t.sub.Take()
		for _, e := range events {
			t.handle(ctx, e)
		}
		if lost {
			if t.above != 0 {
				t.findRoot(ctx)
			}
			_ = t.rescan(ctx) // what it cannot watch is lost as well
			t.pending.lose()  // told when all is watched again, so that looking then misses nothing
		}
	}
}

func (t *Tree) handle(ctx context.Context, e Event) {
	dir, known := t.dirs[e.ID]
	switch {
	case t.above != 0 && e.ID == t.above:
		if e.Op == Create && e.Name == filepath.Base(t.options.Path) {
			t.findRoot(ctx)
		}
		return
	case !known:
		return
	case e.Op == gone:
		t.forget(e.ID)
		if e.ID == t.root && t.only == "" { // unmounted: what was removed has told so before
			t.loseRoot(ctx)
		}
		return
	case e.Name == "": // the directory itself; of others than the root, their parents tell
		if e.ID == t.root && t.only == "" {
			t.pending.add(dir, kindOf(e.Op))
			if e.Op == Remove {
				t.loseRoot(ctx)
			}
		}
		return
	case t.only != "" && e.Name != t.only:
		return
	}
	path := filepath.Join(dir, e.Name)
	if t.excluded(path) {
		return
	}
	t.pending.add(path, kindOf(e.Op))
	if !t.options.Recursive {
		return
	}
	switch {
	case e.Op == Remove && e.Moved: // what is deleted has nothing below it, and is gone by itself
		t.dropBelow(path)
	case e.Op == Create && e.IsDir:
		id, err := t.addDirectory(path, false)
		if err == nil {
			if err = t.scan(ctx, path, true); err != nil {
				t.sub.Remove(id)
			}
		}
		if err != nil && !vanished(err) && !errors.Is(err, errKnown) {
			t.pending.lose()
		}
	}
}

// loseRoot ends all watches, since the root is at its path no more, and waits for another.
func (t *Tree) loseRoot(ctx context.Context) {
	for id := range t.dirs {
		t.sub.Remove(id)
		t.forget(id)
	}
	var err error
	if t.above, err = t.sub.Add(filepath.Dir(t.options.Path), true); err == nil {
		t.findRoot(ctx) // it may be there already
	} else if !vanished(err) {
		t.pending.lose()
	}
}

// findRoot watches what has come to the root's path, if it is a directory.
func (t *Tree) findRoot(ctx context.Context) {
	id, err := t.addDirectory(t.options.Path, true)
	if err == nil {
		t.sub.Remove(t.above)
		t.root, t.above = id, 0
		t.pending.add(t.options.Path, Created)
		err = t.scan(ctx, t.options.Path, true)
	}
	if err != nil && !vanished(err) {
		t.pending.lose()
	}
}

// excluded reports whether the path is not told of.
func (t *Tree) excluded(path string) bool {
	if t.options.Exclude == nil {
		return false
	}
	base := t.options.Path
	if t.only != "" {
		base = filepath.Dir(base)
	}
	return t.options.Exclude(strings.TrimPrefix(strings.TrimPrefix(path, base), "/"))
}

var errKnown = errors.New("directory is watched already")

// addDirectory watches one directory.
func (t *Tree) addDirectory(path string, follow bool) (ID, error) {
	id, err := t.sub.Add(path, follow)
	if err != nil {
		return 0, fmt.Errorf("watch %s: %w", path, err)
	}
	if old, known := t.dirs[id]; known {
		if old == path {
			return id, errKnown
		}
		delete(t.ids, old) // it moved, or is mounted twice
	} else if !t.options.Budget.take() {
		t.sub.Remove(id)
		return 0, ErrBudget
	} else {
		t.count.Add(1)
	}
	t.dirs[id], t.ids[path] = path, id
	return id, nil
}

// scan watches all directories below path, which is watched: whatever is made in it
// from now on is told by the system, so looking at what there is misses nothing. With
// tell, what is found is told as created.
func (t *Tree) scan(ctx context.Context, path string, tell bool) error {
	stack := []string{path}
	for len(stack) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		entries, err := list(dir)
		if err != nil && !vanished(err) {
			return err
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if t.excluded(path) {
				continue
			}
			if tell {
				t.pending.add(path, Created)
			}
			if !e.IsDir() || !t.options.Recursive {
				continue
			}
			_, err := t.addDirectory(path, false)
			switch {
			case err == nil || errors.Is(err, errKnown):
				stack = append(stack, path)
			case !vanished(err):
				return err
			}
		}
	}
	return nil
}

// rescan looks for directories whose making was lost.
func (t *Tree) rescan(ctx context.Context) error {
	if !t.options.Recursive || t.above != 0 {
		return nil
	}
	return t.scan(ctx, t.dirs[t.root], false)
}

func list(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// vanished reports whether err says that a directory is not there any more, is none
// any more, or may not be looked at: then there is nothing to watch.
func vanished(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EPERM, unix.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// dropBelow ends the watches of path and what is below it.
func (t *Tree) dropBelow(path string) {
	if id, ok := t.ids[path]; !ok || id == t.root {
		return
	}
	for p, id := range t.ids {
		if slashpath.Within(p, path) {
			t.sub.Remove(id)
			t.forget(id)
		}
	}
}

func (t *Tree) dropAll() {
	for id := range t.dirs {
		t.forget(id)
	}
}

func (t *Tree) forget(id ID) {
	path, known := t.dirs[id]
	if !known {
		return
	}
	delete(t.dirs, id)
	if t.ids[path] == id {
		delete(t.ids, path)
	}
	t.count.Add(-1)
	t.options.Budget.give()
}

// Next returns the next changes, at most limit of them, oldest first. It waits until
// there are some and Window has passed since the first.
func (t *Tree) Next(ctx context.Context, limit int) (Batch, error) {
	return t.pending.next(ctx, limit)
}
