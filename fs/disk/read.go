package disk

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
)

// content is what a file was when it was read.
type content struct {
	parts []tree.Part
	size  int64
	stat  stat // of what was read; again or opened is set when it may have changed since
}

var windows = sync.Pool{New: func() any { b := make([]byte, tree.ChunkSize); return &b }}

// readFile reads a file in an open directory. Its windows are given to keep, if that is not nil. If
// the file changes meanwhile it is read again; if it does so each time, the last reading counts,
// and the file is to be looked at again.
func (w *Workspace) readFile(ctx context.Context, dir int, name string, keep *keeper) (content, error) {
	fd, err := openFileAt(dir, name)
	if err != nil {
		return content{}, err
	}
	defer closeFD(fd)
	return w.readOpen(ctx, fd, name, keep)
}

// readOpen is readFile for an open file.
func (w *Workspace) readOpen(ctx context.Context, fd int, name string, keep *keeper) (content, error) {
	var c content
	for attempt := 1; ; attempt++ {
		at := time.Now()
		before, err := statFD(fd)
		if err != nil {
			return c, err
		}
		if before.kind != tree.KindFile {
			return c, errSpecial
		}
		// Whoever opens it later changes its times when he writes.
		written := openForWriting(fd)
		if err := w.fault("read", name); err != nil {
			return c, err
		}
		if attempt == readAttempts && (keep == nil || keep.hands) {
			keep = &keeper{ctx: ctx, forest: w.cfg.Forest} // it has other content when it is asked for
		}
		if err := keep.begin(); err != nil {
			return c, err
		}
		if c.parts, c.size, err = w.readParts(fd, before.size, keep); err != nil {
			return c, err
		}
		if c.stat, err = statFD(fd); err != nil {
			return c, err
		}
		quiet := c.stat.size == before.size && c.stat.mtime == before.mtime && c.stat.ctime == before.ctime && c.size == before.size
		if !quiet && attempt < readAttempts {
			continue
		}
		if !quiet || racy(&c.stat, at, time.Now()) {
			c.stat.flags |= again
		}
		if written {
			c.stat.flags |= opened
		}
		return c, nil
	}
}

// racy reports whether a file that was read between two times may have changed after
// that without another time to show for it.
func racy(s *stat, from, to time.Time) bool {
	return racyTime(s.mtime, from, to) || racyTime(s.ctime, from, to)
}

func racyTime(t int64, from, to time.Time) bool {
	g := granularity
	if t%1e9 == 0 {
		g = coarseGranularity
	}
	return t >= from.Add(-g).UnixNano() && t <= to.Add(g).UnixNano()
}

// readParts reads size bytes, or fewer if the file ends before.
func (w *Workspace) readParts(fd int, size int64, keep *keeper) ([]tree.Part, int64, error) {
	var parts []tree.Part
	if size > tree.ChunkSize {
		parts = make([]tree.Part, 0, (size+tree.ChunkSize-1)/tree.ChunkSize)
	}
	var window []byte
	if keep == nil || !keep.hands {
		shared, _ := windows.Get().(*[]byte)
		defer windows.Put(shared)
		window = *shared
	}
	var done int64
	for done < size {
		want := min(size-done, tree.ChunkSize)
		if keep != nil && keep.hands {
			window = make([]byte, want)
		}
		b := window[:want]
		n, err := preadFull(fd, b, done)
		if err != nil {
			return nil, 0, pathError("read", "", err)
		}
		if n == 0 {
			break
		}
		p := tree.Part{Hash: tree.Sum(b[:n]), Size: int64(n)}
		done += int64(n)
		if keep != nil && (keep.out != nil || !slices.Contains(parts[max(0, len(parts)-1):], p)) {
			if err := keep.put(tree.Data{Hash: p.Hash, Bytes: b[:n]}); err != nil {
				return nil, 0, err
			}
		}
		parts = append(parts, p)
		if n < int(want) {
			break
		}
	}
	w.stats.read.Add(done)
	return parts, done, nil
}

// A keeper stores what is read of a file that does not keep it: among the chunks of the forest, or
// in an object of its own, or gives it to hand.
type keeper struct {
	ctx    context.Context // of the call that it lives as long as
	forest *tree.Forest
	hands  bool // it is given to hand
	out    *objects.Writer
	object int64 // the last one that was written
}

// begin is for a file that is read from its beginning.
func (k *keeper) begin() error {
	if k == nil || k.out == nil {
		return nil
	}
	k.object = 0
	return k.out.Close()
}

func (k *keeper) put(d tree.Data) error {
	if k.hands {
		k.forest.Hand(d)
		return nil
	}
	if k.out == nil {
		_, err := k.forest.Pack(k.ctx, d)
		return err
	}
	at, err := k.out.Write(d.Bytes)
	k.object = at.File
	return err
}
