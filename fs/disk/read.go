package disk

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// content is what a file was when it was read.
type content struct {
	parts []tree.Part
	size  int64
	stat  stat // of what was read; again or opened is set when it may have changed since
}

var windows = sync.Pool{New: func() any { b := make([]byte, tree.ChunkSize); return &b }}

// readFile reads a file in an open directory. Windows that are not among the old ones are
// given to keep. If the file changes meanwhile it is read again; if it does so each time,
// the last reading counts, and the file is to be looked at again.
func (w *Workspace) readFile(dir int, name string, old []tree.Part, keep *keeper) (content, error) {
	fd, err := openFileAt(dir, name)
	if err != nil {
		return content{}, err
	}
	defer closeFD(fd)
	return w.readOpen(fd, name, old, keep)
}

// readOpen is readFile for an open file.
func (w *Workspace) readOpen(fd int, name string, old []tree.Part, keep *keeper) (content, error) {
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
		if c.parts, c.size, err = w.readParts(fd, before.size, old, keep); err != nil {
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
func (w *Workspace) readParts(fd int, size int64, old []tree.Part, keep *keeper) ([]tree.Part, int64, error) {
	var parts []tree.Part
	if size > tree.ChunkSize {
		parts = make([]tree.Part, 0, (size+tree.ChunkSize-1)/tree.ChunkSize)
	}
	var done int64
	for done < size {
		want := min(size-done, tree.ChunkSize)
		b := keep.buffer(int(want))
		n, err := preadFull(fd, b, done)
		if err != nil {
			return nil, 0, pathError("read", "", err)
		}
		if n == 0 {
			break
		}
		b = b[:n]
		p := tree.Part{Hash: tree.Sum(b), Size: int64(n)}
		done += int64(n)
		if i := len(parts); i < len(old) && old[i] == p || slices.Contains(parts[max(0, i-1):], p) {
			keep.free(b)
		} else if err := keep.put(tree.Data{Hash: p.Hash, Bytes: b}); err != nil {
			return nil, 0, err
		}
		parts = append(parts, p)
		if n < int(want) {
			break
		}
	}
	w.stats.read.Add(done)
	return parts, done, nil
}

// A keeper stores windows, some at a time. It is used by many goroutines.
type keeper struct {
	ctx    context.Context // of the call that it lives as long as
	forest *tree.Forest
	counts bool // nothing is stored: it only counts what is new

	mu    sync.Mutex
	list  []tree.Data
	bytes int
	added int // how many windows were new to the store
}

func (k *keeper) buffer(n int) []byte {
	if n < tree.ChunkSize {
		return make([]byte, n)
	}
	b, _ := windows.Get().(*[]byte)
	return (*b)[:n]
}

// free takes a buffer back.
func (k *keeper) free(b []byte) {
	if cap(b) >= tree.ChunkSize {
		b = b[:tree.ChunkSize]
		windows.Put(&b)
	}
}

func (k *keeper) put(d tree.Data) error {
	k.mu.Lock()
	k.list, k.bytes = append(k.list, d), k.bytes+len(d.Bytes)
	var full []tree.Data
	if k.bytes >= batchBytes {
		full, k.list, k.bytes = k.list, nil, 0
	}
	k.mu.Unlock()
	return k.store(full)
}

func (k *keeper) store(list []tree.Data) error {
	if len(list) == 0 {
		return nil
	}
	added, err := 0, error(nil)
	if k.counts {
		added, err = k.missing(list)
	} else {
		added, err = k.forest.PutChecked(k.ctx, list...)
	}
	k.mu.Lock()
	k.added += added
	k.mu.Unlock()
	for _, d := range list {
		k.free(d.Bytes)
	}
	return err
}

// missing is how many windows the store does not have.
func (k *keeper) missing(list []tree.Data) (int, error) {
	hashes := make([]tree.Hash, len(list))
	for i := range list {
		hashes[i] = list[i].Hash
	}
	held, err := k.forest.Held(k.ctx, hashes)
	n := 0
	for _, has := range held {
		if !has {
			n++
		}
	}
	return n, err
}

// flush stores what is left.
func (k *keeper) flush() error {
	k.mu.Lock()
	list := k.list
	k.list, k.bytes = nil, 0
	k.mu.Unlock()
	return k.store(list)
}
