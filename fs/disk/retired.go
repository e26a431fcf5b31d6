package disk

import (
	"context"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A program that is about to write may have looked a name up before an entry took the name
// over, and open the file only after we have asked who has it open, or have removed it. So a
// file that is removed stays open for a moment. What is written to it then is kept like what
// was written before.

// A retired file is one that was removed and is still open.
type retired struct {
	fd   int
	stat stat // of the content that is settled, or kept
	// print is the manifest of that, nil if it is not known.
	print *tree.Hash
	it    *item // in whose favour
	at    time.Time
	// unsure: somebody had it open for writing, and may have changed it without a trace. news:
	// it has changed.
	unsure, news bool
}

// retire removes a file or link under the name that it has on its way out. st is of the
// version that is settled, or kept, print its manifest if that is known.
func (b *bringer) retire(dir int, out string, it *item, st *stat, print *tree.Hash) error {
	fd := -1
	if st.kind == tree.KindFile {
		if open, err := openFileAt(dir, out); err == nil {
			fd = open
		}
	}
	return b.retireOpen(dir, out, fd, it, st, print, nil)
}

// retireOpen is retire for a file that is open as fd, -1 for one that is not. It closes fd, or leaves
// that to queue, nil for that of the Workspace.
func (b *bringer) retireOpen(dir int, out string, fd int, it *item, st *stat, print *tree.Hash, queue *retiredQueue) error {
	if err := b.w.fault("retire", it.path); err != nil {
		closeIf(fd)
		return err
	}
	if fd >= 0 && b.w.trusts(fd) != nil {
		// Its file system, NFS or FUSE, would give it another name in its directory until it is closed.
		closeFD(fd)
		fd = -1
	}
	err := pathError("remove", it.path, unlinkAt(dir, out))
	if err != nil || fd < 0 {
		closeIf(fd)
		return err
	}
	r := retired{fd: fd, stat: *st, print: print, it: it, at: time.Now()}
	if queue == nil {
		b.w.hold(b.ctx, r)
	} else {
		queue.hold(b.ctx, b.w, r)
	}
	return nil
}

// A retiredQueue is the retired files of one goroutine of several that clear directories. To remove a
// directory, Linux keeps a processor busy until nobody is closing the last descriptor of a file that was
// in it. So each goroutine closes what it has removed itself.
type retiredQueue struct {
	files []retired
	size  int64
	most  int // how many files stay open, and how many bytes they have
	bytes int64
}

// newRetiredQueue makes the queue of one of n goroutines.
func newRetiredQueue(n int) *retiredQueue {
	return &retiredQueue{most: max(maxRetired/n, 1), bytes: int64(retiredBytes / n)}
}

// hold adds to the queue. Files that were there the longest make room.
func (q *retiredQueue) hold(ctx context.Context, w *Workspace, r retired) {
	q.files, q.size = append(q.files, r), q.size+r.stat.size
	for len(q.files) > 1 && (len(q.files) > q.most || q.size > q.bytes) {
		first := q.files[0]
		q.files, q.size = q.files[1:], q.size-first.stat.size
		w.finishAll(ctx, []retired{first})
	}
}

// hold adds to the retired files. Those that were there the longest make room.
func (w *Workspace) hold(ctx context.Context, r retired) {
	w.outMu.Lock()
	if len(w.retired) >= maxUnfinished {
		w.outMu.Unlock()
		closeFD(r.fd)
		return
	}
	w.retired = append(w.retired, r)
	size := int64(0)
	for i := range w.retired {
		size += w.retired[i].stat.size
	}
	n := 0
	for ; n < len(w.retired)-1 && (len(w.retired)-n > maxRetired || size > retiredBytes); n++ {
		size -= w.retired[n].stat.size
	}
	over := append([]retired(nil), w.retired[:n]...)
	w.retired = append([]retired(nil), w.retired[n:]...)
	w.rouse(w.limits.grace)
	w.outMu.Unlock()
	w.finishAll(ctx, over)
}

// held is how many bytes the retired files have.
func (w *Workspace) held() int64 {
	w.outMu.Lock()
	defer w.outMu.Unlock()
	size := int64(0)
	for i := range w.retired {
		size += w.retired[i].stat.size
	}
	return size
}

// rouse has the retired files looked at after a while. The caller has outMu.
func (w *Workspace) rouse(after time.Duration) {
	if w.reaper != nil || w.reaped {
		return
	}
	w.reaping.Add(1)
	w.reaper = time.AfterFunc(after, func() { // Close waits for it
		defer w.reaping.Done()
		w.turn <- struct{}{}
		defer w.release()
		w.outMu.Lock()
		w.reaper = nil
		w.outMu.Unlock()
		w.reap(context.Background(), false)
	})
}

// reap finishes retired files: all, or those that nobody can be about to open any more. It
// reports whether it has closed some.
func (w *Workspace) reap(ctx context.Context, all bool) bool {
	w.outMu.Lock()
	var due, rest []retired
	for _, r := range w.retired {
		if all || time.Since(r.at) >= w.limits.grace {
			due = append(due, r)
		} else {
			rest = append(rest, r)
		}
	}
	w.retired = rest
	if len(rest) > 0 {
		w.rouse(w.limits.grace)
	}
	w.outMu.Unlock()
	return w.finishAll(ctx, due) < len(due)
}

// endReaping finishes what can be finished, for good.
func (w *Workspace) endReaping() {
	w.reap(context.Background(), true)
	w.outMu.Lock()
	defer w.outMu.Unlock()
	w.reaped = true
	for _, r := range w.retired {
		closeFD(r.fd)
	}
	w.retired = nil
	if w.reaper != nil && w.reaper.Stop() {
		w.reaping.Done()
	}
}

// finishAll finishes retired files, and returns how many are still written to, or cannot be
// kept now.
func (w *Workspace) finishAll(ctx context.Context, list []retired) int {
	var left []retired
	for _, r := range list {
		done, err := w.finishRetired(context.WithoutCancel(ctx), &r)
		if err != nil {
			w.log.WarnContext(ctx, "a version that a command wrote cannot be kept yet", "path", r.it.path, "err", err)
		}
		if done {
			closeFD(r.fd)
			continue
		}
		r.at = time.Now()
		left = append(left, r)
	}
	if len(left) > 0 {
		w.outMu.Lock()
		defer w.outMu.Unlock()
		w.retired = append(w.retired, left...)
		w.rouse(graceOpen)
	}
	return len(left)
}

// finishRetired keeps a retired file if it has changed. It reports whether that is all.
func (w *Workspace) finishRetired(ctx context.Context, r *retired) (bool, error) {
	if openForWriting(r.fd) {
		r.unsure = true
		return false, nil
	}
	st, err := statFD(r.fd)
	if err != nil {
		return true, err
	}
	if !r.news && !r.unsure && st.size == r.stat.size && st.mtime == r.stat.mtime && !racyTime(st.mtime, r.at, r.at) {
		return true, nil
	}
	if !r.news {
		if r.print != nil {
			got, err := w.readOpen(ctx, r.fd, r.it.path, nil, nil)
			if err != nil || tree.ManifestOf(got.parts) == *r.print {
				return err == nil, err
			}
		}
		r.news = true // also when it cannot be kept now
	}
	got, err := w.readOpen(ctx, r.fd, r.it.path, nil, &keeper{ctx: ctx, forest: w.cfg.Forest})
	if err != nil {
		return false, err
	}
	entry := tree.Entry{Kind: st.kind, Mode: uint32(st.mode), MTime: time.Unix(0, st.mtime), Size: got.size, Parts: got.parts}
	v := lost.Version{Path: w.treePath(r.it.path), At: time.Now(), Why: lost.Overtaken, By: r.it.fingerprint(), Entry: entry}
	if _, err := w.cfg.Tree.Update(ctx, func(e *tree.Edit) error { return lost.Keep(e, &v) }); err != nil {
		return false, err
	}
	w.stats.overtaken.Add(1)
	w.log.InfoContext(ctx, "a file was changed just after an entry had taken its place; that version is kept", "path", r.it.path, "version", v.ID, "size", entry.Size)
	return true, nil
}
