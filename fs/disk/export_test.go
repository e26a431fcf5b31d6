package disk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

const Granularity = granularity

// Hook sets what is called at certain moments: "enter" before a directory is opened,
// "list" before it is listed, "copy" before a window of content that files have is written,
// "lift" before a renamed file is moved to the objects, "read" before a file is read, "write" before one is written, "make" before each try to, "dress" before an object that
// becomes one gets its time, "sync" before what was written is brought to the disk, "place" before it is renamed
// to its place, "clear" before something is removed, "busy" when the system is asked whether
// somebody has a file open for writing, "retire" before a file is removed that is known or kept, "finish" before a directory gets its
// mode.
func (w *Workspace) Hook(fn func(op, path string) error) {
	w.turn <- struct{}{}
	defer w.release()
	w.hook = fn
}

// Watched is how many directories are watched, -1 for none that will ever be.
func (w *Workspace) Watched() int {
	w.turn <- struct{}{}
	defer w.release()
	if w.watch == nil {
		return -1
	}
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	return len(w.watch.dirs)
}

// Lose lets the watcher have lost events.
func (w *Workspace) Lose() {
	w.turn <- struct{}{}
	defer w.release()
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	w.watch.drop()
}

// FailWatch lets the system refuse to watch.
func (w *Workspace) FailWatch(err error) {
	w.turn <- struct{}{}
	defer w.release()
	w.watch.fail(err)
}

// Hook2 is Hook for what is called by a hook.
func (w *Workspace) Hook2(fn func(op, path string) error) { w.hook = fn }

// Shrink makes limits so small that everything takes several batches.
func (w *Workspace) Shrink() {
	w.turn <- struct{}{}
	defer w.release()
	w.limits = limits{batch: 2, kept: 2, page: 2, journal: 8, grace: grace}
}

// Retired is how many files that were removed are still open.
func (w *Workspace) Retired() int {
	w.outMu.Lock()
	defer w.outMu.Unlock()
	return len(w.retired)
}

// Distrust has the file system be one of others.
func (w *Workspace) Distrust(err error) {
	w.turn <- struct{}{}
	defer w.release()
	w.trusts = func(int) error { return err }
}

// Grace sets for how long a file that was removed stays open.
func (w *Workspace) Grace(d time.Duration) {
	w.turn <- struct{}{}
	defer w.release()
	w.limits.grace = d
}

// Room sets how much the file system says that it has room for; -1 is one that does not know.
func (w *Workspace) Room(bytes int64) {
	w.turn <- struct{}{}
	defer w.release()
	w.room = func(int) (int64, bool) { return bytes, bytes >= 0 }
}

// NoFiles sets whether the file system has room for no more files.
func (w *Workspace) NoFiles(is bool) {
	w.turn <- struct{}{}
	defer w.release()
	w.noFiles = func(int) bool { return is }
}

// Room2 is Room for what is called by a hook.
func (w *Workspace) Room2(bytes int64) {
	w.room = func(int) (int64, bool) { return bytes, bytes >= 0 }
}

// Consistent compares the index with its rows, and with the tree but for what the journal
// lists. It does not look at the directory.
func (w *Workspace) Consistent(ctx context.Context) error {
	w.turn <- struct{}{}
	defer w.release()
	if w.stale {
		return nil // it is read again before it is used
	}
	stored := newIndex()
	journal := map[string]struct{}{}
	var found []error
	_, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		if err := stored.load(rows, w.root.ID); err != nil {
			return err
		}
		return rows.DiskJournal(w.root.ID, 0, func(_ int64, paths []byte) error {
			eachOfRow(paths, func(path string, _ bool) { journal[path] = struct{}{} }, func(string, tree.Hash) {})
			return nil
		})
	})
	if err != nil {
		return err
	}
	// What the journal has is of another version, and so are the directories above it.
	pending := func(path string) bool {
		for j := range journal {
			if slashpath.Within(path, j) || slashpath.Within(j, path) {
				return true
			}
		}
		return false
	}
	stats := func(x *index) map[string]stat {
		all := map[string]stat{}
		x.root.each(func(n *node) { all[n.path()] = n.stat })
		return all
	}
	memory, kept := stats(w.index), stats(stored)
	for path, s := range memory {
		got, ok := kept[path]
		got.flags |= s.flags & again // what is to be read again is noted in memory first
		if !ok || got != s {
			found = append(found, fmt.Errorf("%s: the index has %+v, the rows %v %+v", path, s, ok, got))
		}
	}
	for path := range kept {
		if _, ok := memory[path]; !ok {
			found = append(found, fmt.Errorf("%s: only the rows have it", path))
		}
	}
	err = w.cfg.Tree.Walk(ctx, w.cfg.Mount, func(i *tree.FileInfo) error {
		path, _ := w.where(i.Path)
		s, ok := memory[path]
		delete(memory, path)
		if path != "" && !hidden(path) && !pending(path) && (!ok || s.kind != i.Kind) {
			found = append(found, fmt.Errorf("%s: only the tree has it", path))
		}
		return nil
	})
	for path := range memory {
		if !pending(path) {
			found = append(found, fmt.Errorf("%s: only the index has it", path))
		}
	}
	return errors.Join(append(found, err)...)
}

// Journaled is how many paths the journal has, counting each as often as it is there; -1 with an error.
func (w *Workspace) Journaled(ctx context.Context) (n int) {
	w.turn <- struct{}{}
	defer w.release()
	_, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		n = 0
		rows, err := rowsOf(e.Tx())
		if err != nil {
			return err
		}
		return rows.DiskJournal(w.root.ID, 0, func(_ int64, paths []byte) error {
			eachOfRow(paths, func(string, bool) { n++ }, func(string, tree.Hash) {})
			return nil
		})
	})
	if err != nil {
		return -1
	}
	return n
}

// OnCall sets what gets each look at a name, or at what is open ("stat", without a name), and each
// opening of one ("open"), in all workspaces; nil for nothing.
func OnCall(fn func(call, name string)) {
	if fn == nil {
		onCall.Store(nil)
		return
	}
	onCall.Store(&fn)
}

// Reflink sets what has files share their blocks.
func (w *Workspace) Reflink(fn func(dst, src int) error) {
	w.turn <- struct{}{}
	defer w.release()
	w.reflink = fn
	w.unshared.Store(false)
}

// Apart has the workspace believe that objects are on another file system.
func (w *Workspace) Apart() { w.apart.Store(true) }

// Settled reports whether the file of a path is known to have what the tree has without being read.
func (w *Workspace) Settled(ctx context.Context, path string) (is bool, err error) {
	_, err = w.cfg.Tree.Update(ctx, func(e *tree.Edit) error {
		is, err = w.home.Settled(e.Tx(), w.treePath(path))
		return err
	})
	return is, err
}
