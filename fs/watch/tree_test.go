package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// backends are those that can run here; all are to tell the same.
var backends = map[string]func(func(backend, []Event, bool)) (backend, error){
	"system": newSystemBackend, "portable": newPortableBackend,
}

// watcher is a Tree under test.
type watcher struct {
	t    *testing.T
	dir  string
	tree *Tree
	told []string // what was wanted, and was told
}

func onBackends(t *testing.T, test func(t *testing.T, hub *Hub)) {
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			hub := newHub(b)
			test(t, hub)
			hub.mu.Lock()
			defer hub.mu.Unlock()
			if hub.backend != nil || len(hub.refs) > 0 || len(hub.subs) > 0 {
				t.Errorf("the hub is left with %d directories and %d subscribers", len(hub.refs), len(hub.subs))
			}
		})
	}
}

func watchTree(t *testing.T, hub *Hub, o Options) *watcher {
	t.Helper()
	if o.Path == "" {
		o.Path = t.TempDir()
	}
	if o.Limit == 0 {
		o.Limit = 1000
	}
	tree, err := hub.Watch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return &watcher{t: t, dir: o.Path, tree: tree}
}

var letters = map[Kind]string{Created: "+", Modified: "~", Removed: "-"}

// untilLost takes changes until some are lost.
func (w *watcher) untilLost() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for {
		b, err := w.tree.Next(ctx, 10)
		if err != nil {
			w.t.Fatal(err)
		}
		if b.Overflow {
			return
		}
	}
}

// until takes changes until all of want have been told, in any order. What else is
// told may only be a modification, or what was wanted here or before, again: what is found
// by looking and what the system tells of it may come one Window after the other.
func (w *watcher) until(want ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	left := slices.Clone(want)
	w.told = append(w.told, want...)
	for len(left) > 0 {
		b, err := w.tree.Next(ctx, 100)
		if err != nil {
			w.t.Fatalf("%v; %v were not told", err, left)
		}
		if b.Overflow {
			w.t.Fatal("overflow")
		}
		for _, c := range b.Changes {
			rel, _ := filepath.Rel(w.dir, c.Path)
			told := letters[c.Kind] + rel
			if i := slices.Index(left, told); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else if c.Kind != Modified && !slices.Contains(w.told, told) {
				w.t.Errorf("told %s", told)
			}
		}
	}
}

func (w *watcher) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *watcher) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watcher) put(name string) {
	w.t.Helper()
	w.do(os.WriteFile(w.path(name), []byte("x"), 0o666))
}

func TestTree(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "old", "deep"), 0o777); err != nil {
			t.Fatal(err)
		}
		w := watchTree(t, hub, Options{Path: dir, Recursive: true})
		defer w.tree.Close()
		if n := w.tree.Directories(); n != 3 {
			t.Errorf("%d directories, want 3", n)
		}
		w.put("f")
		w.until("+f")
		w.put("f")
		w.until("~f")
		w.put("old/deep/g")
		w.until("+old/deep/g")
		w.do(os.MkdirAll(w.path("new/a/b"), 0o777)) // faster than anybody can watch
		w.put("new/a/b/h")
		w.until("+new", "+new/a", "+new/a/b", "+new/a/b/h")
		w.do(os.Rename(w.path("new"), w.path("moved")))
		w.until("-new", "+moved", "+moved/a", "+moved/a/b", "+moved/a/b/h")
		w.put("moved/a/b/i")
		w.until("+moved/a/b/i")
		w.do(os.Mkdir(w.path("new"), 0o777)) // another one under the old name
		w.put("new/j")
		w.until("+new", "+new/j")
		w.do(os.RemoveAll(w.path("moved")))
		w.until("-moved/a/b/h", "-moved/a/b/i", "-moved/a/b", "-moved/a", "-moved")
		w.do(os.Remove(w.path("f")))
		w.until("-f")
		if n := w.tree.Directories(); n != 4 {
			t.Errorf("%d directories, want 4", n)
		}
	})
}

func TestTreeOfOneDirectory(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		w := watchTree(t, hub, Options{})
		defer w.tree.Close()
		w.do(os.Mkdir(w.path("d"), 0o777))
		w.until("+d")
		w.put("d/x")
		w.put("y")
		w.until("+y")
	})
}

// A file is watched beyond being replaced.
func TestTreeOfAFile(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		w := watchTree(t, hub, Options{Path: path, Recursive: true})
		w.dir = dir
		defer w.tree.Close()
		w.put("other")
		w.put("tmp")
		w.do(os.Rename(w.path("tmp"), path))
		w.until("+f")
		w.put("f")
		w.until("~f")
		w.do(os.Remove(path))
		w.until("-f")
	})
}

func TestTreeExcludes(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		w := watchTree(t, hub, Options{Recursive: true, Exclude: func(rel string) bool { return strings.HasSuffix(rel, "no") }})
		defer w.tree.Close()
		w.put("no")
		w.do(os.MkdirAll(w.path("yes/no/deep"), 0o777))
		w.put("yes/no/deep/x")
		w.put("yes/z")
		w.until("+yes", "+yes/z")
		if n := w.tree.Directories(); n != 2 {
			t.Errorf("%d directories, want 2", n)
		}
	})
}

func TestTreeLosesItsRoot(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		dir := filepath.Join(t.TempDir(), "root")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		w := watchTree(t, hub, Options{Path: dir, Recursive: true})
		defer w.tree.Close()
		w.do(os.Remove(dir))
		w.until("-.")
		for begin := time.Now(); w.tree.Directories() != 0; { // the end of the watches follows
			if time.Since(begin) > time.Minute {
				t.Fatalf("%d directories are watched", w.tree.Directories())
			}
		}
		// Another one comes, and goes.
		for range 2 {
			w.do(os.Mkdir(dir, 0o777))
			w.until("+.")
			w.put("a")
			w.do(os.Mkdir(w.path("d"), 0o777))
			w.until("+a", "+d")
			w.put("d/x")
			w.until("+d/x")
			w.do(os.RemoveAll(dir))
			w.until("-.", "-a", "-d", "-d/x")
		}
	})
	onBackends(t, func(t *testing.T, hub *Hub) {
		dir := filepath.Join(t.TempDir(), "root")
		away := dir + "-away"
		if err := os.MkdirAll(filepath.Join(dir, "d"), 0o777); err != nil {
			t.Fatal(err)
		}
		w := watchTree(t, hub, Options{Path: dir, Recursive: true, Budget: &Budget{Max: 2}})
		defer w.tree.Close()
		w.do(os.Rename(dir, away))
		w.until("-.")
		// What was moved away is not told of any more; what is there already is.
		w.do(os.WriteFile(filepath.Join(away, "d", "secret"), nil, 0o666))
		next := dir + "-next"
		w.do(os.MkdirAll(filepath.Join(next, "n"), 0o777))
		w.do(os.WriteFile(filepath.Join(next, "n", "x"), nil, 0o666))
		w.do(os.Rename(next, dir))
		w.until("+.", "+n", "+n/x")
		w.put("n/y")
		w.until("+n/y")
	})
	onBackends(t, func(t *testing.T, hub *Hub) {
		dir := filepath.Join(t.TempDir(), "above", "root")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		w := watchTree(t, hub, Options{Path: dir})
		defer w.tree.Close()
		w.do(os.RemoveAll(filepath.Dir(dir)))
		w.until("-.")
	})
	onBackends(t, func(t *testing.T, hub *Hub) {
		if _, err := hub.Watch(t.Context(), Options{Path: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a missing root: %v", err)
		}
	})
}

// limited has no room for another watch of a directory.
type limited struct {
	backend
	full string
}

func (l *limited) add(path string, follow bool) (ID, error) {
	if path == l.full {
		return 0, limitError("test", unix.ENOSPC)
	}
	return l.backend.add(path, follow)
}

// Nobody waits in vain for a root to come back that the system has no room to wait for.
func TestTreeCannotWaitForItsRoot(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "root")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	w := watchTree(t, newHub(func(told func(backend, []Event, bool)) (_ backend, err error) {
		l := &limited{full: above}
		l.backend, err = newSystemBackend(func(_ backend, events []Event, lost bool) { told(l, events, lost) })
		return l, err
	}), Options{Path: dir})
	defer w.tree.Close()
	w.do(os.Remove(dir))
	w.untilLost()
}

// Two trees of the same directory, by different paths, both are told.
func TestTreesShareADirectory(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		dir := t.TempDir()
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		a := watchTree(t, hub, Options{Path: dir, Recursive: true})
		b := watchTree(t, hub, Options{Path: link, Recursive: true})
		defer b.tree.Close()
		a.do(os.Mkdir(a.path("d"), 0o777))
		a.put("d/x")
		a.until("+d", "+d/x")
		b.until("+d", "+d/x")
		a.tree.Close()
		b.put("d/y")
		b.until("+d/y")
	})
}

func TestTreeBudget(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		budget := &Budget{Max: 3}
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "a"), 0o777); err != nil {
			t.Fatal(err)
		}
		w := watchTree(t, hub, Options{Path: dir, Recursive: true, Budget: budget})
		if _, err := hub.Watch(t.Context(), Options{Path: dir, Recursive: true, Budget: budget}); !errors.Is(err, ErrBudget) {
			t.Errorf("a second tree: %v", err)
		}
		w.do(os.MkdirAll(w.path("b/c"), 0o777))
		b, err := w.tree.Next(t.Context(), 100)
		for err == nil && !b.Overflow {
			b, err = w.tree.Next(t.Context(), 100)
		}
		if err != nil {
			t.Errorf("a tree that grew too large: %v", err)
		}
		w.tree.Close()
		if n := budget.used.Load(); n != 0 {
			t.Errorf("%d directories are still counted", n)
		}
	})
}

// Changes that nobody takes are dropped, and that is told; directories made meanwhile
// are watched all the same.
func TestTreeOverflow(t *testing.T) {
	onBackends(t, func(t *testing.T, hub *Hub) {
		w := watchTree(t, hub, Options{Recursive: true, Limit: 20})
		defer w.tree.Close()
		for i := range 200 {
			w.put(fmt.Sprint(i))
		}
		w.do(os.MkdirAll(w.path("d/e"), 0o777))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		overflown := func() bool {
			w.tree.pending.mu.Lock()
			defer w.tree.pending.mu.Unlock()
			return w.tree.pending.overflow
		}
		for tick := time.NewTicker(time.Millisecond); !overflown() && ctx.Err() == nil; {
			<-tick.C // nobody is told of it but who takes
		}
		if b, err := w.tree.Next(ctx, 10); err != nil || !b.Overflow || len(b.Changes) > 10 {
			t.Fatalf("%+v, %v", b, err)
		}
		// When the directory is known, what happens in it is told.
		for w.tree.Directories() < 3 && ctx.Err() == nil {
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			_, _ = w.tree.Next(short, 10)
			cancel()
		}
		told := func(name string) bool {
			for {
				b, err := w.tree.Next(ctx, 10)
				if err != nil {
					t.Fatal(err)
				}
				if b.Overflow { // of the first files, still
					return false
				}
				if slices.ContainsFunc(b.Changes, func(c Change) bool { return c.Path == w.path(name) }) {
					return true
				}
			}
		}
		for i := 0; ; i++ {
			name := fmt.Sprint("d/e/x", i)
			w.put(name)
			if told(name) {
				return
			}
		}
	})
}

func TestNextEnds(t *testing.T) {
	hub := NewHub()
	w := watchTree(t, hub, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := w.tree.Next(ctx, 1); !errors.Is(err, why) {
		t.Errorf("ended context: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := w.tree.Next(t.Context(), 1)
		got <- err
	}()
	w.tree.Close()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
