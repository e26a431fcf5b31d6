package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A fakeHome is a directory and objects in memory.
type fakeHome struct {
	files   map[string]string
	changed map[string]bool // files that look other than when they were settled
	objects map[int64][]byte
	last    int64
	pack    int64 // the object of many
	wasted  map[int64]bool
	// asked are the paths and objects that were read, missed and dropped what was said of others.
	asked, missed []string
	dropped       []int64
	beforeRead    func() // is called once, before an object or a file is read
	full          func() bool
	unsynced      map[int64]bool
	syncErr       error
}

func (h *fakeHome) Tree() string { return "t" }

func (h *fakeHome) read() {
	if do := h.beforeRead; do != nil {
		h.beforeRead = nil
		do()
	}
}

func (h *fakeHome) File(path string, offset, size int64, dst []byte) ([]byte, error) {
	h.read()
	h.asked = append(h.asked, path)
	text, ok := h.files[path]
	if !ok || int64(len(text)) < offset+size {
		return dst, iofs.ErrNotExist
	}
	return append(dst, text[offset:offset+size]...), nil
}

func (h *fakeHome) Settled(_ tree.Tx, path string) (bool, error) {
	_, ok := h.files[path]
	return ok && !h.changed[path], nil
}

func (h *fakeHome) Missed(path string) { h.missed = append(h.missed, path) }

func (h *fakeHome) Sync() error {
	if h.syncErr == nil {
		clear(h.unsynced)
	}
	return h.syncErr
}

func (h *fakeHome) Has(at tree.Place, size int64) (bool, error) {
	return h.objects[at.Object] != nil && int64(len(h.objects[at.Object])) >= at.Offset+size, nil
}

func (h *fakeHome) add(object int64, data []byte) tree.Place {
	at := tree.Place{Object: object, Offset: int64(len(h.objects[object]))}
	h.objects[object] = append(h.objects[object], data...)
	h.unsynced[object] = true
	return at
}

func (h *fakeHome) next() int64 { h.last++; return h.last }

func (h *fakeHome) Pack(data []byte) (tree.Place, error) {
	if h.full != nil && h.full() {
		return tree.Place{}, syscall.ENOSPC
	}
	if h.pack == 0 {
		h.pack = h.next()
	}
	return h.add(h.pack, data), nil
}

func (h *fakeHome) Object(at tree.Place, size int64, dst []byte) ([]byte, error) {
	h.read()
	data := h.objects[at.Object]
	if int64(len(data)) < at.Offset+size {
		return dst, iofs.ErrNotExist
	}
	return append(dst, data[at.Offset:at.Offset+size]...), nil
}

func (h *fakeHome) Wasted(o tree.Object) (wasted, room bool) { return h.wasted[o.Number], true }

func (h *fakeHome) Drop(object int64) {
	h.dropped = append(h.dropped, object)
	delete(h.objects, object)
	if h.pack == object {
		h.pack = 0
	}
}

func (h *fakeHome) Writer() tree.ObjectWriter { return &fakeWriter{h: h} }

type fakeWriter struct {
	h  *fakeHome
	at int64 // 0 when the next window begins an object
}

func (w *fakeWriter) Write(data []byte) (tree.Place, error) {
	if w.h.full != nil && w.h.full() {
		return tree.Place{}, syscall.ENOSPC
	}
	if w.at == 0 {
		w.at = w.h.next()
	}
	place := w.h.add(w.at, data)
	if len(data) < tree.ChunkSize {
		w.at = 0
	}
	return place, nil
}

func (w *fakeWriter) Close() error { return nil }

// A faultyStore fails in updates, if fault says so before a call, or before the commit. No update may
// commit that something is in an object whose bytes a power cut can take.
type faultyStore struct {
	tree.Store
	t     *testing.T
	home  *fakeHome
	fault func(call string, h tree.Hash) error
	uses  int // rows that Uses has returned
}

func (s *faultyStore) Update(ctx context.Context, fn func(tree.Tx) error) error {
	return s.Store.Update(ctx, func(tx tree.Tx) error {
		f := faultyTx{tx, s, map[int64]bool{}}
		err := fn(f)
		if err == nil {
			err = s.fault("commit", tree.Hash{})
		}
		for object := range f.placed {
			if err == nil && s.home.unsynced[object] {
				s.t.Errorf("bytes of object %d are not on the disk before their rows", object)
			}
		}
		return err
	})
}

type faultyTx struct {
	tree.Tx
	s      *faultyStore
	placed map[int64]bool
}

func (tx faultyTx) PutPlaced(h tree.Hash, size int64, at tree.Place, now int64) (bool, error) {
	is, err := tx.Tx.PutPlaced(h, size, at, now)
	if is {
		tx.placed[at.Object] = true
	}
	return is, err
}

func (tx faultyTx) PlaceChunk(h tree.Hash, at tree.Place) error {
	if err := tx.s.fault("PlaceChunk", h); err != nil {
		return err
	}
	tx.placed[at.Object] = true
	return tx.Tx.PlaceChunk(h, at)
}

func (tx faultyTx) Uses(h tree.Hash, limit int) ([]tree.Use, error) {
	list, err := tx.Tx.Uses(h, limit)
	tx.s.uses += len(list)
	return list, err
}

func (tx faultyTx) ChunksIn(object int64, limit int) ([]tree.Chunk, error) {
	if err := tx.s.fault("ChunksIn", tree.Hash{}); err != nil {
		return nil, err
	}
	return tx.Tx.ChunksIn(object, limit)
}

func (tx faultyTx) Referenced(h tree.Hash) (bool, error) {
	if err := tx.s.fault("Referenced", h); err != nil {
		return false, err
	}
	return tx.Tx.Referenced(h)
}

func (tx faultyTx) DeleteChunk(h tree.Hash) error {
	if err := tx.s.fault("DeleteChunk", h); err != nil {
		return err
	}
	return tx.Tx.DeleteChunk(h)
}

func noFault(string, tree.Hash) error { return nil }

// A homeBench is a forest with a home.
type homeBench struct {
	*testing.T
	home   *fakeHome
	now    time.Time
	store  *faultyStore
	forest *tree.Forest
	tree   *tree.Tree
	other  *tree.Tree // of another name, with no directory
}

func newHome(t *testing.T) *homeBench {
	t.Helper()
	b := &homeBench{T: t, now: time.Unix(1_800_000_000, 0), home: &fakeHome{
		files: map[string]string{}, changed: map[string]bool{}, objects: map[int64][]byte{}, wasted: map[int64]bool{}, unsynced: map[int64]bool{},
	}}
	b.store = &faultyStore{Store: tree.NewMemory(), t: t, home: b.home, fault: noFault}
	b.forest = tree.New(b.store, tree.Config{Now: func() time.Time { return b.now }})
	b.forest.SetHome(b.home)
	for name, to := range map[string]**tree.Tree{"t": &b.tree, "other": &b.other} {
		made, err := b.forest.Tree(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		*to = made
	}
	return b
}

// cut cuts text into windows.
func cut(text string) (parts []tree.Part, data []tree.Data) {
	for at := 0; at < len(text); at += tree.ChunkSize {
		w := []byte(text[at:min(at+tree.ChunkSize, len(text))])
		parts = append(parts, tree.Part{Hash: tree.Sum(w), Size: int64(len(w))})
		data = append(data, tree.Data{Hash: tree.Sum(w), Bytes: w})
	}
	return parts, data
}

// settle has a file of the directory in the tree, without its content.
func (b *homeBench) settle(path, text string) {
	b.Helper()
	b.home.files[path] = text
	delete(b.home.changed, path)
	b.entry(b.tree, path, text, tree.Located)
}

func (b *homeBench) entry(tr *tree.Tree, path, text string, how tree.ApplyMode) {
	b.Helper()
	parts, _ := cut(text)
	b.update(tr, func(e *tree.Edit) error {
		_, err := e.Apply(&tree.Entry{Kind: tree.KindFile, Path: path, Mode: 0o644, MTime: b.now, Size: int64(len(text)), Parts: parts}, how)
		return err
	})
}

func (b *homeBench) update(tr *tree.Tree, fn func(*tree.Edit) error) {
	b.Helper()
	if _, err := tr.Update(b.Context(), fn); err != nil {
		b.Fatal(err)
	}
}

// change writes a file of the directory.
func (b *homeBench) change(path, text string) { b.home.files[path], b.home.changed[path] = text, true }

func (b *homeBench) put(text string) {
	b.Helper()
	_, data := cut(text)
	if _, err := b.forest.PutChunks(b.Context(), data...); err != nil {
		b.Fatal(err)
	}
}

// want reads content that is to be had, or not.
func (b *homeBench) want(text string, is bool) {
	b.Helper()
	parts, data := cut(text)
	for i, p := range parts {
		got, err := b.forest.Chunk(b.Context(), p.Hash, []byte("<"))
		var missing *tree.MissingError
		switch {
		case is && (err != nil || !bytes.Equal(got[1:], data[i].Bytes)):
			b.Errorf("window %d of %.10q: %d bytes, %v", i, text, len(got), err)
		case !is && (!errors.As(err, &missing) || missing.Hash != p.Hash || string(got) != "<"):
			b.Errorf("window %d of %.10q: %.10q, %v", i, text, got, err)
		}
	}
}

func (b *homeBench) collect() {
	b.Helper()
	if _, err := b.forest.Collect(b.Context(), tree.Policy{Grace: -1}); err != nil {
		b.Error(err)
	}
}

func (b *homeBench) objects() map[int64]string {
	out := map[int64]string{}
	for number, data := range b.home.objects {
		out[number] = string(data)
	}
	return out
}

// Content comes from an object or from the file that has it, and from nothing that has changed.
func TestHomeChunk(t *testing.T) {
	t.Run("object", func(t *testing.T) {
		b := newHome(t)
		b.put("arrived")
		b.want("arrived", true)
		b.home.objects[1][0]++
		parts, _ := cut("arrived")
		if _, err := b.forest.Chunk(t.Context(), parts[0].Hash, nil); !errors.Is(err, tree.ErrUnknownHash) && !errors.Is(err, tree.ErrDamaged) {
			t.Errorf("bytes that are others: %v", err)
		}
	})
	t.Run("file", func(t *testing.T) {
		b := newHome(t)
		long := string(bytes.Repeat([]byte("a"), tree.ChunkSize)) + "tail"
		b.settle("/d/f", long)
		b.want(long, true)
		b.change("/d/f", "shorter")
		b.want(long, false)
		if !slices.Contains(b.home.missed, "/d/f") {
			t.Errorf("missed %q", b.home.missed)
		}
		if len(b.home.objects) != 0 {
			t.Error("content of a file was stored")
		}
	})
	t.Run("another file", func(t *testing.T) {
		b := newHome(t)
		b.settle("/a", "same")
		b.settle("/b", "same")
		b.change("/a", "other")
		b.want("same", true)
	})
	t.Run("file of a tree without a directory", func(t *testing.T) {
		b := newHome(t)
		b.put("beside")
		b.entry(b.other, "/f", "beside", 0)
		b.home.files["/f"] = "lies"
		b.want("beside", true)
		if len(b.home.asked) != 0 {
			t.Errorf("read %q", b.home.asked)
		}
	})
}

// Content that moves while it is read is found at its new place.
func TestHomeChunkMoves(t *testing.T) {
	t.Run("from the object to the file", func(t *testing.T) {
		b := newHome(t)
		b.put("text")
		b.entry(b.tree, "/f", "text", tree.Located)
		b.home.beforeRead = func() { b.home.files["/f"] = "text"; clear(b.home.objects) }
		b.want("text", true)
	})
	t.Run("from the file to an object", func(t *testing.T) {
		b := newHome(t)
		b.settle("/f", "text")
		b.home.beforeRead = func() { b.put("text"); b.change("/f", "news") }
		b.want("text", true)
	})
}

// Held says of what only files have whether they have it still.
func TestHomeHeld(t *testing.T) {
	b := newHome(t)
	for _, name := range []string{"settled", "touched", "changed", "gone"} {
		b.settle("/"+name, name)
	}
	b.home.changed["/touched"] = true // it looks other than it did, and has the same
	b.change("/changed", "CHANGED")
	delete(b.home.files, "/gone")
	b.put("object")
	var hashes []tree.Hash
	for _, text := range []string{"settled", "touched", "changed", "gone", "object", "never"} {
		hashes = append(hashes, tree.Sum([]byte(text)))
	}
	held, err := b.forest.Held(t.Context(), hashes)
	if diff := cmp.Diff([]bool{true, true, false, false, true, false}, held); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if slices.Contains(b.home.asked, "/settled") {
		t.Error("a file that is as it was is read")
	}
	for i, want := range []bool{true, true, false, false} {
		if got := b.forest.Wanted(hashes[i]); got != want {
			t.Errorf("%d: a peer counts on it: %v", i, got)
		}
	}
	b.now = b.now.Add(tree.MinUnseen + time.Second)
	if b.forest.Wanted(hashes[0]) {
		t.Error("a peer counts on it for ever")
	}
}

// What is secured stays when the file changes.
func TestHomeSecure(t *testing.T) {
	b := newHome(t)
	b.settle("/f", "one")
	b.settle("/g", "two")
	secure := func(text string) error {
		_, err := b.tree.Update(t.Context(), func(e *tree.Edit) error { return e.Secure(tree.Sum([]byte(text))) })
		return err
	}
	for _, text := range []string{"one", "two", "one"} {
		if err := secure(text); err != nil {
			t.Error(err)
		}
	}
	b.change("/f", "1")
	b.change("/g", "2")
	b.want("one", true)
	b.want("two", true)
	if diff := cmp.Diff(map[int64]string{1: "onetwo"}, b.objects()); diff != "" {
		t.Error(diff)
	}
	if err := secure("never"); !errors.Is(err, tree.ErrUnknownHash) {
		t.Error(err)
	}
	b.settle("/h", "three")
	b.change("/h", "3")
	if err := secure("three"); !errors.Is(err, tree.ErrUnknownHash) {
		t.Error(err)
	}
}

// Another tree's entry has the content of a file kept apart: it is not that tree's file.
func TestHomeEntryElsewhereKeepsContent(t *testing.T) {
	b := newHome(t)
	b.settle("/f", "text")
	b.entry(b.other, "/lost", "text", 0)
	b.change("/f", "news")
	b.want("text", true)
	if err := b.forest.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Place says that an object has a file's content, also if a window comes in it twice.
func TestHomePlace(t *testing.T) {
	b := newHome(t)
	window := string(bytes.Repeat([]byte("w"), tree.ChunkSize))
	text := window + window + "end"
	parts, _ := cut(text)
	b.put("end") // is in an object of its own
	b.home.objects[9] = []byte(text)
	var drop []int64
	b.update(b.tree, func(e *tree.Edit) (err error) {
		drop, err = e.Place(tree.Became{Parts: parts, Object: 9})
		return err
	})
	if !slices.Equal(drop, []int64{1}) {
		t.Errorf("nothing is in %v any more", drop)
	}
	delete(b.home.objects, 1)
	b.want(text, true)
	list, err := b.forest.Objects(t.Context())
	if diff := cmp.Diff([]tree.Object{{Number: 9, Bytes: tree.ChunkSize + 3}}, list); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A collection leaves content to the files that have it, if all that refers to it are such files.
func TestHomeCollectLeavesToFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*homeBench)
		stays  bool
	}{
		"as it was":   {func(*homeBench) {}, false},
		"seen lately": {func(b *homeBench) { b.now = b.now.Add(-2 * time.Hour) }, false},
		"many files": {func(b *homeBench) {
			for i := range 40 {
				b.settle(fmt.Sprint("/f", i), "text")
			}
		}, false},
		"one of many changed": {func(b *homeBench) {
			for i := range 40 {
				b.settle(fmt.Sprint("/f", i), "text")
			}
			b.home.changed["/f39"] = true
		}, true},
		"file changed": {func(b *homeBench) { b.change("/f", "TEXT") }, true},
		"file touched": {func(b *homeBench) { b.home.changed["/f"] = true }, true},
		"file rots":    {func(b *homeBench) { b.home.files["/f"] = "tExt" }, true},
		"file is gone": {func(b *homeBench) { delete(b.home.files, "/f") }, true},
		"lost version": {func(b *homeBench) { b.entry(b.other, "/lost", "text", 0) }, true},
		"pinned": {func(b *homeBench) {
			if _, err := b.forest.Pin(b.Context(), []tree.Hash{tree.Sum([]byte("text"))}); err != nil {
				b.Error(err)
			}
			b.now = b.now.Add(2 * time.Hour)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHome(t)
			b.put("text")
			b.settle("/f", "text")
			b.now = b.now.Add(2 * time.Hour)
			c.change(b)
			b.collect()
			if got := len(b.home.objects) > 0; got != c.stays {
				t.Errorf("in objects: %v", got)
			}
			// A peer may count on content in the file, too, once the server has said that it has it apart.
			if lately, is := name == "seen lately", b.forest.Wanted(tree.Sum([]byte("text"))); is != lately {
				t.Errorf("wanted: %v", is)
			}
			b.want("text", true)
		})
	}
}

// A file that has one window very often, as one of zeroes does, keeps it, and so do some files. Of
// many files an edit does not find out: it looks at none of them, and counts no more than it would look at.
func TestF5ManyUsesOfAWindow(t *testing.T) {
	window := string(bytes.Repeat([]byte("0"), tree.ChunkSize))
	parts, _ := cut(window)
	for name, c := range map[string]struct {
		files, windows int
		kept           bool
	}{
		"a long file":     {1, 20_000, true},
		"some files":      {64, 1, true},
		"many files":      {65, 1, false},
		"very many files": {5_000, 1, false},
		"too long a file": {1, 1<<16 + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHome(t)
			b.put(window)
			b.update(b.tree, func(e *tree.Edit) error {
				for i := range c.files {
					entry := tree.Entry{
						Kind: tree.KindFile, Path: fmt.Sprint("/f", i), Mode: 0o644, MTime: b.now,
						Size: int64(c.windows) * tree.ChunkSize, Parts: slices.Repeat(parts, c.windows),
					}
					if _, err := e.Apply(&entry, tree.Located); err != nil {
						return err
					}
				}
				return nil
			})
			asked := 0
			b.store.uses = 0
			b.update(b.tree, func(e *tree.Edit) error {
				drop, err := e.LeaveToFiles(parts, func(string) (bool, error) { asked++; return true, nil })
				if kept := slices.Equal(drop, []int64{1}); kept != c.kept {
					t.Errorf("nothing is in %v any more", drop)
				}
				return err
			})
			if c.kept && asked != c.files || !c.kept && asked > 0 {
				t.Errorf("%d files were looked at", asked)
			}
			if c.windows == 1 && b.store.uses > 65 {
				t.Errorf("%d uses were read", b.store.uses)
			}
		})
	}
}

// Only the home's tree may have windows without a chunk.
func TestHomeCheck(t *testing.T) {
	b := newHome(t)
	b.settle("/f", "text")
	if err := b.forest.Check(t.Context()); err != nil {
		t.Error(err)
	}
	b.entry(b.other, "/g", "text", tree.Located) // which is a lie there
	if err := b.forest.Check(t.Context()); !errors.Is(err, tree.ErrDamaged) {
		t.Error(err)
	}
	if err := b.forest.Check(t.Context(), "other"); err != nil {
		t.Error(err)
	}
}

// Content is found in the one of many files that can be read, wherever that is among them.
func TestHomeOneOfMany(t *testing.T) {
	const many = 40
	for i := range many {
		b := newHome(t)
		for k := range many {
			b.settle(fmt.Sprintf("/d/%02d", k), "same")
		}
		for k := range many {
			if k != i {
				delete(b.home.files, fmt.Sprintf("/d/%02d", k)) // its directory cannot be entered
			}
		}
		b.want("same", true)
		parts, _ := cut("same")
		if held, err := b.forest.Held(t.Context(), []tree.Hash{parts[0].Hash}); err != nil || !held[0] {
			t.Errorf("file %d: held %v, %v", i, held, err)
		}
		b.home.changed[fmt.Sprintf("/d/%02d", i)] = true
		if held, err := b.forest.Held(t.Context(), []tree.Hash{parts[0].Hash}); err != nil || !held[0] {
			t.Errorf("file %d with another time: held %v, %v", i, held, err)
		}
		b.update(b.tree, func(e *tree.Edit) error {
			got, err := e.Content(parts[0].Hash, nil)
			if err == nil && string(got) != "same" {
				t.Errorf("file %d: %q in a call", i, got)
			}
			return err
		})
	}
}
