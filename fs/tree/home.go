package tree

import (
	"context"
	"errors"
	iofs "io/fs"
	"slices"
)

// A Home has content that is not in rows of the store: in objects, and in the files of a
// directory that a tree stands for. It is safe for concurrent use. Without one a forest keeps
// all content in its store.
type Home interface {
	// Tree is the name of the tree whose files the directory has.
	Tree() string
	// File appends the size bytes from offset on of the file that the directory has for a path
	// of the tree. io/fs.ErrNotExist says that it has none, or a shorter one. Whether they are
	// the tree's is for the caller to find out.
	File(path string, offset, size int64, dst []byte) ([]byte, error)
	// Settled reports whether the file that the directory has for a path of the tree looks as it
	// did when it had what the tree has. It is used in the transaction.
	Settled(tx Tx, path string) (bool, error)
	// Missed says that somebody has asked for content of a path's file, which has other content
	// by now.
	Missed(path string)

	// Writer writes objects of content in the order in which it comes.
	Writer() ObjectWriter
	// Sync returns when what was written to objects is on the disk, if commits wait for that.
	Sync() error
	// Pack adds the bytes of a chunk to an object of many.
	Pack(data []byte) (Place, error)
	// Object appends size bytes of an object; io/fs.ErrNotExist if it does not have them.
	Object(at Place, size int64, dst []byte) ([]byte, error)
	// Has reports whether an object has size bytes at a place, and is not about to become a file.
	// It does not read them.
	Has(at Place, size int64) (bool, error)
	// Wasted reports whether an object that chunks of so many bytes are in is worth being
	// written anew without what else is in it, and whether there is room for that.
	Wasted(o Object) (wasted, room bool)
	// Drop removes an object that no chunk is in.
	Drop(object int64)
}

// An ObjectWriter writes objects for one caller. The bytes of a file that come one chunk after the
// other are an object of their own.
type ObjectWriter interface {
	Write(data []byte) (Place, error)
	// Close ends the object of a file. A later Write begins a new one.
	Close() error
}

// SetHome gives a forest its home, before anything else is done with it.
func (f *Forest) SetHome(h Home) { f.home = h }

// maxInObject is how many chunks of an object that is gone are looked at.
const maxInObject = 1 << 20

// secure sees to it that a chunk is in the store or in an object, whatever becomes of the files
// that have it.
func (e *Edit) secure(h Hash) (Chunk, error) {
	f := e.tree.forest
	data, err := e.Content(h, nil)
	if err != nil {
		return Chunk{}, err
	}
	if _, err := f.pack(e.tx, []Data{{Hash: h, Bytes: data}}, e.now.UnixMilli()); err != nil {
		return Chunk{}, err
	}
	return e.tx.Chunk(h)
}

// Secure has the content of a chunk kept apart from the files that have it.
func (e *Edit) Secure(h Hash) error {
	c, err := e.tx.Chunk(h)
	astray := false
	if err == nil {
		astray, err = e.tree.forest.astray(&c)
	}
	if astray || errors.Is(err, ErrNoRow) {
		c, err = e.secure(h)
	}
	if err == nil && c.Where == 0 {
		err = &MissingError{h}
	}
	return err
}

// Whole finds the object that is the content of a file, and nothing more: 0 if there is none. A part
// that is neither in the store nor in an object is a *MissingError. Chunks that were found dead live again.
func (e *Edit) Whole(parts []Part) (int64, error) {
	object, at := int64(0), int64(0)
	for i, p := range parts {
		c, err := e.tx.Chunk(p.Hash)
		if err == nil && c.Where == 0 {
			err = ErrNoRow
		}
		if err := missing(p.Hash, err); err != nil {
			return 0, err
		}
		if c.Size != p.Size {
			return 0, wrongSize(p, c.Size)
		}
		if c.Dead != 0 {
			if err := e.tx.MarkChunk(p.Hash, c.Seen, 0); err != nil {
				return 0, err
			}
		}
		switch {
		case c.Where != ChunkObject || c.At.Offset != at || i > 0 && c.At.Object != object:
			object = -1
		case i == 0:
			object = c.At.Object
		}
		at += p.Size
	}
	return max(object, 0), nil
}

// Expect says that entries are about to be applied: what is known of their content is looked for at
// once.
func (e *Edit) Expect(entries []Entry) error {
	var list []Hash
	for i := range entries {
		for _, p := range entries[i].Parts {
			list = append(list, p.Hash)
		}
	}
	return e.tx.Expect(list)
}

// Used is for each of some files, which the parts are of, how many parts of files refer to some of
// its chunks, its own included, up to limit: as many as to that which most refer to.
func (e *Edit) Used(files [][]Part, limit int) ([]int, error) {
	uses := map[Hash]int{}
	var list []Hash
	for _, parts := range files {
		for _, p := range parts { // others may have one of its windows only
			if _, known := uses[p.Hash]; !known {
				uses[p.Hash] = 0
				list = append(list, p.Hash)
			}
		}
	}
	err := e.tx.CountUses(list, limit, func(h Hash, n int) error {
		uses[h] = n
		return nil
	})
	used := make([]int, len(files))
	for i, parts := range files {
		for _, p := range parts {
			used[i] = max(used[i], uses[p.Hash])
		}
	}
	return used, err
}

// Became is an object that so many files of the home have become, which begins with their parts.
type Became struct {
	Parts  []Part
	Object int64
	Files  int
}

// A Keeper reports whether the directory has a file for a path of the home's tree, so that what the tree
// has for it need not be anywhere else. A nil Keeper knows of none.
type Keeper func(path string) (bool, error)

// Kept reports whether files keep all of some parts: nothing else consists of them, nobody reads them,
// and has is true for each such file. Of content of very many files that is not found out.
func (e *Edit) Kept(parts []Part, has Keeper) (bool, error) {
	find := &finder{forest: e.tree.forest, tx: e.tx}
	for i, p := range parts {
		if i > 0 && p == parts[i-1] {
			continue
		}
		if is, err := find.kept(p.Hash, maxKeepersNow, has); !is || err != nil || e.tree.forest.pinned(p.Hash) {
			return false, err
		}
	}
	return true, nil
}

// LeaveToFiles forgets where content is apart from the files that keep it, see Kept. It returns the
// objects that nothing is in any more, for Home.Drop once the edit is kept. Content that somebody reads stays.
func (e *Edit) LeaveToFiles(parts []Part, has Keeper) ([]int64, error) {
	f := e.tree.forest
	find := &finder{forest: f, tx: e.tx}
	done := map[Hash]struct{}{}
	var drop []int64
	for _, p := range parts {
		if _, twice := done[p.Hash]; twice {
			continue
		}
		done[p.Hash] = struct{}{}
		c, err := e.tx.Chunk(p.Hash)
		if errors.Is(err, ErrNoRow) || f.pinned(p.Hash) {
			continue
		}
		var is bool
		if err == nil {
			is, err = find.kept(p.Hash, maxKeepersNow, has)
		}
		if err == nil && is {
			drop, err = deleteChunk(e.tx, &c, drop)
		}
		if err != nil {
			return nil, err
		}
	}
	return drop, nil
}

// Release forgets objects that have become files. Content that others refer to is kept for them, unless
// they keep it themselves. Release returns the objects that nothing is in any more, for Home.Drop once
// the edit is kept.
func (e *Edit) Release(list []Became, has Keeper) ([]int64, error) {
	objects, files := make([]Object, len(list)), make([][]Part, len(list))
	for i, b := range list {
		size, err := sizeOf(b.Parts)
		if err != nil {
			return nil, err
		}
		objects[i], files[i] = Object{b.Object, size}, b.Parts
	}
	empty, err := e.tx.DeletePlaced(objects)
	if err != nil {
		return nil, err
	}
	used, err := e.Used(files, 2)
	for i, b := range list {
		if err == nil && used[i] > 1 {
			err = e.keepShared(b, has)
		}
	}
	return empty, err
}

// keepShared keeps what is in an object that is released for others.
func (e *Edit) keepShared(b Became, has Keeper) error {
	find := &finder{forest: e.tree.forest, tx: e.tx}
	for i, p := range b.Parts {
		if i > 0 && p == b.Parts[i-1] {
			continue
		}
		uses, err := e.tx.Uses(p.Hash, b.Files+maxUses)
		if err != nil {
			return err
		}
		if len(uses) <= b.Files {
			continue
		}
		if kept, err := find.kept(p.Hash, maxKeepersNow, has); kept || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		inos := map[int64]bool{}
		for _, u := range uses {
			inos[u.Ino] = true
		}
		if len(inos) > b.Files || len(uses) == b.Files+maxUses {
			// A command may have changed the files already; then nobody has it any more.
			if err := e.Secure(p.Hash); err != nil && !errors.Is(err, ErrUnknownHash) {
				return err
			}
		}
	}
	return nil
}

// Place says that the chunks of each of some files are an object now. It returns the objects that nothing
// is in any more, for Home.Drop once the edit is kept.
func (e *Edit) Place(files ...Became) ([]int64, error) {
	var drop []int64
	for some := range slices.Chunk(files, placedAtOnce) {
		var hashes []Hash
		for i := range some {
			for _, p := range some[i].Parts {
				hashes = append(hashes, p.Hash)
			}
		}
		if err := e.tx.Expect(hashes); err != nil {
			return nil, err
		}
		for i := range some {
			var err error
			if drop, err = e.place(&some[i], drop); err != nil {
				return nil, err
			}
		}
	}
	return drop, nil
}

// placedAtOnce is the number of files whose chunks one query looks up.
const placedAtOnce = 512

// place is Place for one file. It appends to drop.
func (e *Edit) place(b *Became, drop []int64) ([]int64, error) {
	at := int64(0)
	for _, p := range b.Parts {
		to := Place{b.Object, at}
		at += p.Size
		is, err := e.tx.PutPlaced(p.Hash, p.Size, to, e.now.UnixMilli())
		if err != nil {
			return nil, err
		}
		if is {
			continue
		}
		old, err := e.tx.Chunk(p.Hash)
		if err == nil && old.At.Object == b.Object {
			continue // it stands there twice
		}
		if err == nil {
			err = e.tx.PlaceChunk(p.Hash, to)
		}
		if err == nil && old.Where == ChunkObject {
			var left []Chunk
			if left, err = e.tx.ChunksIn(old.At.Object, 1); err == nil && len(left) == 0 {
				drop = append(drop, old.At.Object)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return drop, nil
}

// Content appends the bytes of a chunk that is in the store, in an object, or in files that the tree
// has or had before the edit.
func (e *Edit) Content(h Hash, dst []byte) ([]byte, error) {
	f := e.tree.forest
	if at, is := e.left[h]; is {
		if got, ok := f.fromFiles([]source{{at.path, at.offset}}, h, at.size, dst); ok {
			return got, nil
		}
	}
	return f.chunkNow(e.tx, h, dst)
}

// Beginning lists paths of files of the home that should begin with a chunk, as the edit has them.
// The home may have other files there by now, or none.
func (e *Edit) Beginning(h Hash) ([]string, error) {
	return beginning(e.tree.forest.sources(e.tx, h, maxUses))
}

// Beginning is Edit.Beginning for what the tree has now.
func (f *Forest) Beginning(ctx context.Context, h Hash) (list []string, err error) {
	err = f.store.View(ctx, func(tx Tx) (err error) {
		list, err = beginning(f.sources(tx, h, maxUses))
		return err
	})
	return list, wrap("look for files that begin with a chunk", err)
}

func beginning(list []source, err error) ([]string, error) {
	var paths []string
	for _, s := range list {
		if s.offset == 0 {
			paths = append(paths, s.path)
		}
	}
	return paths, err
}

// Gone reports whether some content of a file is nowhere any more, for good: it was in files of
// the home only, which have been changed or removed.
func (f *Forest) Gone(ctx context.Context, parts []Part) (bool, error) {
	for _, p := range parts {
		var list []source
		var row bool
		err := f.store.View(ctx, func(tx Tx) error {
			_, err := tx.Chunk(p.Hash)
			if row = err == nil; row {
				return nil
			}
			if errors.Is(err, ErrNoRow) {
				list, err = f.sources(tx, p.Hash, maxKeepers)
			}
			return err
		})
		if err != nil {
			return false, wrap("look for a chunk", err)
		}
		gone := !row
		for _, s := range list {
			data, err := f.home.File(s.path, s.offset, p.Size, nil)
			if err == nil && Sum(data) == p.Hash || err != nil && !errors.Is(err, iofs.ErrNotExist) {
				gone = false // or it is not known
			}
		}
		if gone {
			return true, nil
		}
	}
	return false, nil
}

// Objects lists the objects that chunks are in.
func (f *Forest) Objects(ctx context.Context) (list []Object, err error) {
	err = f.store.View(ctx, func(tx Tx) error {
		list, err = tx.Objects()
		return err
	})
	return list, wrap("list objects", err)
}

// ForgetUnused forgets where the chunks are of an object that is not there, but for those that files
// consist of. It reports whether there are such.
func (f *Forest) ForgetUnused(ctx context.Context, object int64) (left bool, err error) {
	err = f.store.Update(ctx, func(tx Tx) error {
		left = false
		list, err := tx.ChunksIn(object, maxInObject)
		for i := range list {
			if err != nil {
				return err
			}
			var used bool
			if used, err = tx.Referenced(list[i].Hash); err == nil && !used {
				err = tx.DeleteChunk(list[i].Hash)
			}
			left = left || used
		}
		return err
	})
	return left, wrap("forget an object", err)
}

// Homeless reports whether files consist of a chunk of which no place is known but theirs, or one
// where it is not.
func (f *Forest) Homeless(ctx context.Context, h Hash) (is bool, err error) {
	var c Chunk
	err = f.store.View(ctx, func(tx Tx) error {
		if is, err = tx.Referenced(h); !is || err != nil {
			return err
		}
		if c, err = tx.Chunk(h); errors.Is(err, ErrNoRow) {
			return nil
		}
		is = c.Where == 0
		return err
	})
	if err == nil && c.Where == ChunkObject {
		_, err := f.home.Object(c.At, c.Size, nil)
		is = err != nil
	}
	return is, wrap("look for a chunk", err)
}
