package disk

const Granularity = granularity

// Hook sets what is called at certain moments: "enter" before a directory is opened,
// "read" before a file is read, "write" before one is written, "place" before it is renamed
// to its place, "clear" before something is removed.
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
	w.limits = limits{batch: 2, kept: 2, page: 2, journal: 8}
}

// Room sets how much the file system says that it has room for; -1 is one that does not know.
func (w *Workspace) Room(bytes int64) {
	w.turn <- struct{}{}
	defer w.release()
	w.room = func(int) (int64, bool) { return bytes, bytes >= 0 }
}
