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

// readFile reads a file in an open directory, one of ours whatever its mode. Its windows are given to keep, if that is not nil. If
// the file changes meanwhile it is read again; if it does so each time, the last reading counts,
// and the file is to be looked at again.
func (w *Workspace) readFile(ctx context.Context, dir int, name string, keep *keeper) (content, error) {
	fd, err := openOurs(dir, name)
	if err != nil {
		return content{}, err
	}
	defer closeFD(fd)
	return w.readOpen(ctx, fd, name, nil, keep)
}

// readSeen is readFile for a file that was looked at before and that we may read. If it is still
// as it was then when it has been read, that look and the one after the reading are all it takes.
func (w *Workspace) readSeen(ctx context.Context, dir int, name string, seen *stat, keep *keeper) (content, error) {
	fd, err := openWithRights(dir, name)
	if err != nil {
		return content{}, err
	}
	defer closeFD(fd)
	if seen.size > tree.ChunkSize {
		seen = nil // to read it for nothing takes longer than a look
	}
	return w.readOpen(ctx, fd, name, seen, keep)
}

// readOpen is readSeen for an open file.
func (w *Workspace) readOpen(ctx context.Context, fd int, name string, seen *stat, keep *keeper) (content, error) {
	for attempt := 1; ; attempt++ {
		at, before := time.Now(), seen
		if before == nil {
			now, err := statFD(fd)
			if err != nil {
				return content{}, err
			}
			before = &now
		}
		if before.kind != tree.KindFile {
			return content{}, errSpecial
		}
		if attempt == readAttempts && (keep == nil || keep.hands) {
			keep = &keeper{ctx: ctx, forest: w.cfg.Forest} // it has other content when it is asked for
		}
		c, quiet, err := w.readOnce(fd, name, before, at, keep)
		if err != nil && seen != nil {
			if now, e := statFD(fd); e == nil && now.kind != tree.KindFile {
				err = errSpecial // it has come to the place of the file
			}
		}
		if err != nil || quiet || attempt == readAttempts {
			return c, err
		}
		seen = nil
	}
}

// readOnce reads an open file, and reports whether it is what it was when it was looked at before. at is
// a time before the reading.
func (w *Workspace) readOnce(fd int, name string, before *stat, at time.Time, keep *keeper) (c content, quiet bool, err error) {
	// A program that opens the file later changes its times when it writes.
	written := openForWriting(fd)
	if err := w.fault("read", name); err != nil {
		return c, false, err
	}
	if err := keep.begin(); err != nil {
		return c, false, err
	}
	if c.parts, c.size, err = w.readParts(fd, before.size, keep); err != nil {
		return c, false, err
	}
	if c.stat, err = statFD(fd); err != nil {
		return c, false, err
	}
	quiet = c.stat.kind == before.kind && c.stat.ino == before.ino && c.stat.size == before.size &&
		c.stat.mtime == before.mtime && c.stat.ctime == before.ctime && c.size == before.size
	if !quiet || racy(&c.stat, at, time.Now()) {
		c.stat.flags |= again
	}
	if written {
		c.stat.flags |= opened
	}
	return c, quiet, nil
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
