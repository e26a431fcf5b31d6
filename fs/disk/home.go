package disk

import (
	"context"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A home is the tree.Home of a workspace: the content of files is where they are, in the
// directory; all else is in objects.
type home struct {
	w    *Workspace // nil while nobody has the directory open
	name string     // of the tree
	dir  *objects.Dir
	log  *slog.Logger
	root int64 // the row of the directory, 0 before it is known

	mu sync.Mutex
	// missed are paths whose content a peer asked for that had changed.
	missed map[string]struct{}
	// taken are objects that are about to become files.
	taken map[int64]struct{}
	// lent are objects that have become files of which the store does not know. It is used in turn.
	lent map[int64]struct{}
}

var _ tree.Home = (*home)(nil)

// ObjectsOnly is the home of a forest whose directory is not open: only what is in objects is to be
// had.
func ObjectsOnly(name string, dir *objects.Dir) tree.Home {
	return &home{name: name, dir: dir, log: slog.New(slog.DiscardHandler)}
}

func (h *home) Tree() string { return h.name }

// where is the path in the directory of a path of the tree.
func (h *home) where(path string) (string, bool) {
	if h.w == nil {
		return "", false
	}
	rel, inside := h.w.where(path)
	return rel, inside && !hidden(rel)
}

// open opens the file that the directory has for a path of the tree.
func (h *home) open(path string, flags int) (int, error) {
	rel, inside := h.where(path)
	if !inside {
		return -1, iofs.ErrNotExist
	}
	root, err := openRoot(h.w.cfg.Dir)
	if err != nil {
		return -1, err
	}
	defer closeFD(root)
	if rel == "" {
		rel = "."
	}
	return openBelow(root, rel, flags)
}

// hasOther reports whether something is at a path of the directory that the index does not know.
func (h *home) hasOther(path string) bool {
	fd, err := h.open(h.w.treePath(path), dirfd.Path)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	st, err := statFD(fd)
	n := h.w.index.find(path)
	if err != nil || n == nil {
		return err == nil
	}
	known := n.stat
	known.dev = st.dev
	return !known.same(&st)
}

// openOurs opens a file of ours when its mode, or one above it, keeps us from reading it.
func (h *home) openOurs(path string) (int, error) {
	rel, inside := h.where(path)
	if !inside || rel == "" {
		return -1, iofs.ErrNotExist
	}
	root, err := openRoot(h.w.cfg.Dir)
	if err != nil {
		return -1, err
	}
	defer closeFD(root)
	return openOursBelow(root, rel)
}

func (h *home) File(path string, offset, size int64, dst []byte) ([]byte, error) {
	fd, err := h.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if forbidden(err) {
		fd, err = h.openOurs(path)
	}
	if err != nil {
		return dst, notThere(err)
	}
	defer closeFD(fd)
	st, err := statFD(fd)
	if err != nil {
		return dst, err
	}
	if st.kind != tree.KindFile || st.size < offset+size {
		return dst, iofs.ErrNotExist
	}
	start := len(dst)
	if need := start + int(size); cap(dst) < need {
		dst = append(make([]byte, 0, need), dst...)
	}
	dst = dst[:start+int(size)]
	n, err := preadFull(fd, dst[start:], offset)
	if err == nil && n < int(size) {
		err = iofs.ErrNotExist
	}
	if err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// notThere is io/fs.ErrNotExist for what a path does not lead to as a file.
func notThere(err error) error {
	if gone(err) {
		return iofs.ErrNotExist
	}
	return err
}

func (h *home) Settled(tx tree.Tx, path string) (bool, error) {
	rows, ok := tx.(Rows)
	if !ok || h.root == 0 {
		return false, nil
	}
	rel, inside := h.where(path)
	if !inside {
		return false, nil
	}
	text, err := rows.DiskStat(h.root, rel)
	if text == nil || err != nil {
		return false, err
	}
	known, err := decodeStat(text)
	if err != nil || known.kind != tree.KindFile || known.flags&unsure != 0 {
		return false, err
	}
	fd, err := h.open(path, dirfd.Path)
	if err != nil {
		return false, nil //nolint:nilerr // it is not there, or not for us
	}
	defer closeFD(fd)
	st, err := statFD(fd)
	if err != nil {
		return false, nil //nolint:nilerr // it is not there, or not for us
	}
	st.dev = known.dev // another number after each start
	return known.same(&st), nil
}

// Missed notes that a peer has asked for content that the file of a path no longer has: the next
// settle stores what it has then, so that it is there when it is offered.
func (h *home) Missed(path string) {
	rel, inside := h.where(path)
	if !inside {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.missed == nil {
		h.missed = map[string]struct{}{}
	}
	if len(h.missed) < maxMissed {
		h.missed[rel] = struct{}{}
	}
}

// takeMissed returns the paths of Missed.
func (h *home) takeMissed() map[string]struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.missed
	h.missed = nil
	return list
}

// adopt, take and giveBack are Adopt, Take and Return of the objects, for a name of a tree.
func (h *home) adopt(dir int, name string) (int64, error) {
	raw, err := onDisk(name)
	if err != nil {
		return 0, err
	}
	return h.dir.Adopt(dir, raw)
}

func (h *home) take(object, size int64, dir int, name string) error {
	raw, err := onDisk(name)
	if err != nil {
		return err
	}
	return h.dir.Take(object, size, dir, raw)
}

func (h *home) giveBack(object int64, dir int, name string) error {
	raw, err := onDisk(name)
	if err != nil {
		return err
	}
	return h.dir.Return(object, dir, raw)
}

func (h *home) Writer() tree.ObjectWriter { return objectWriter{h.dir.WriterFor(usualMode)} }

// usualMode is that of most files: an object that has it needs no other one.
const usualMode = 0o644

type objectWriter struct{ w *objects.Writer }

func (o objectWriter) Write(data []byte) (tree.Place, error) {
	at, err := o.w.Write(data)
	return tree.Place{Object: at.File, Offset: at.Offset}, err
}

func (o objectWriter) Close() error { return o.w.Close() }

func (h *home) Sync() error {
	if h.w == nil || !h.w.cfg.Sync {
		return nil
	}
	if err := h.w.fault("sync", "."); err != nil {
		return err
	}
	return h.dir.Sync()
}

func (h *home) Pack(data []byte) (tree.Place, error) {
	at, err := h.dir.Pack(data)
	return tree.Place{Object: at.File, Offset: at.Offset}, err
}

func (h *home) Object(at tree.Place, size int64, dst []byte) ([]byte, error) {
	return h.dir.Read(objects.Place{File: at.Object, Offset: at.Offset}, size, dst)
}

// wastedBytes is how much an object may have that no chunk is in before it is written anew.
const wastedBytes = 4 << 20

func (h *home) Wasted(o tree.Object) (wasted, room bool) {
	if h.dir.Packing(o.Number) {
		return false, true
	}
	fd, err := h.dir.Handle(o.Number)
	if err != nil {
		return false, true
	}
	defer closeFD(fd)
	st, err := statFD(fd)
	if err != nil || st.size <= 2*o.Bytes+wastedBytes {
		return false, true
	}
	free, known := freeBytes(fd)
	return true, !known || o.Bytes <= free
}

func (h *home) Has(at tree.Place, size int64) (bool, error) {
	h.mu.Lock()
	_, taken := h.taken[at.Object]
	h.mu.Unlock()
	if taken {
		return false, nil
	}
	return h.dir.Has(at.Object, at.Offset+size)
}

// takes notes which objects are about to become files: what needs their content for itself is not to
// count on them.
func (h *home) takes(list []*item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken = map[int64]struct{}{}
	for _, it := range list {
		if it.object != nil && it.object.files > 0 {
			h.taken[it.object.number] = struct{}{}
		}
	}
}

// lends notes that objects have become files, which could not be stored.
func (h *home) lends(list []*item) {
	for _, it := range list {
		if !it.lent {
			continue
		}
		if h.lent == nil {
			h.lent = map[int64]struct{}{}
		}
		h.lent[it.object.number] = struct{}{}
	}
}

func (h *home) Drop(object int64) {
	if err := h.dir.Remove(object); err != nil {
		h.log.Warn("an object that nothing is in cannot be removed", "object", object, "err", err)
	}
}

// recoverObjects disposes of objects that no chunk is in, which a crash has left: what the tree
// has and is nowhere else is referred to, all else removed. It returns objects that are not there and
// that files consist of; of others that are not there the chunks are forgotten.
func (w *Workspace) recoverObjects(ctx context.Context) (map[int64]struct{}, error) {
	known := map[int64]struct{}{}
	list, err := w.cfg.Forest.Objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		known[o.Number] = struct{}{}
	}
	var left []int64
	err = w.home.dir.Each(func(object, _ int64) error {
		if _, ok := known[object]; !ok {
			left = append(left, object)
		}
		delete(known, object)
		return nil
	})
	for object := range known { // it became a file that something else has replaced, or was taken away
		var used bool
		if err == nil {
			used, err = w.cfg.Forest.ForgetUnused(ctx, object)
		}
		if !used {
			delete(known, object)
		}
	}
	for _, object := range left {
		if err == nil {
			err = w.recoverObject(ctx, object)
		}
	}
	return known, err
}

// recoverObject keeps an object that the tree has the only use for.
func (w *Workspace) recoverObject(ctx context.Context, number int64) error {
	fd, err := w.home.dir.Handle(number)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	st, err := statFD(fd)
	var parts []tree.Part
	if err == nil {
		parts, _, err = w.readParts(fd, st.size, nil)
	}
	needed := false
	if err == nil {
		needed, err = w.needed(ctx, parts)
	}
	if err != nil {
		return fmt.Errorf("object %016x that a crash has left: %w", number, err)
	}
	if !needed {
		w.home.Drop(number)
		return nil
	}
	return w.placeAll(ctx, []*object{{number: number, parts: parts}})
}

// needed reports whether a file consists of something of which the store knows no place, or one
// that is not there: it may be nowhere else.
func (w *Workspace) needed(ctx context.Context, parts []tree.Part) (bool, error) {
	for _, p := range parts {
		is, err := w.cfg.Forest.Homeless(ctx, p.Hash)
		if is || err != nil {
			return is, err
		}
	}
	return false, nil
}
