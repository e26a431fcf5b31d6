package tree

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/wsd-dev/wsd/fs/rawname"
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
	// written anew without what else is in it.
	Wasted(o Object) bool
	// Drop removes an object that no chunk is in.
	Drop(object int64)
}

// An ObjectWriter writes objects for one caller. The bytes of a file that come one chunk after the
// other are an object of their own.
type ObjectWriter interface {
	Write(data []byte) (Place, error)
	Close() error
}

// SetHome gives a forest its home, before anything else is done with it.
func (f *Forest) SetHome(h Home) { f.home = h }

// maxInObject is how many chunks of an object that is gone are looked at.
const maxInObject = 1 << 20

// maxUses is how many files with a chunk are tried.
const maxUses = 16

// A source is where a file of the home has a chunk.
type source struct {
	path   string
	offset int64
}

// A finder finds which files of the home should have chunks, in one view.
type finder struct {
	forest *Forest
	tx     Tx
	ns     *Namespace       // nil before it is known
	dirs   map[int64]string // paths of directories, ended by a slash; "" for one of another tree
}

// maxDirs bounds the directories whose paths a finder remembers.
const maxDirs = 10_000

// sources are the files of the home that should have a chunk.
func (f *Forest) sources(tx Tx, h Hash) ([]source, error) {
	return (&finder{forest: f, tx: tx}).sources(h)
}

func (f *finder) sources(h Hash) ([]source, error) {
	if f.forest.home == nil {
		return nil, nil
	}
	if f.ns == nil {
		ns, err := f.tx.Namespace(f.forest.home.Tree())
		if errors.Is(err, ErrNoRow) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		f.ns, f.dirs = &ns, map[int64]string{ns.Root: "/"}
	}
	uses, err := f.tx.Uses(h, maxUses)
	if err != nil {
		return nil, err
	}
	var list []source
	for _, u := range uses {
		names, err := f.tx.NamesOf(u.Ino)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			dir, err := f.dir(n.Namespace, n.Parent, 0)
			if err != nil {
				return nil, err
			}
			if dir != "" {
				list = append(list, source{dir + n.Name, int64(u.Index) * ChunkSize})
			}
		}
	}
	return list, nil
}

// dir is the path of a directory of a tree, so many levels above a file.
func (f *finder) dir(tree, ino int64, levels int) (string, error) {
	if tree != f.ns.ID || levels > MaxPath {
		return "", nil
	}
	if path, known := f.dirs[ino]; known {
		return path, nil
	}
	names, err := f.tx.NamesOf(ino)
	if err != nil || len(names) != 1 {
		return "", err
	}
	path, err := f.dir(names[0].Namespace, names[0].Parent, levels+1)
	if err != nil {
		return "", err
	}
	if path != "" {
		path += names[0].Name + "/"
	}
	if rawname.Len(path) > MaxPath {
		path = ""
	}
	if len(f.dirs) < maxDirs {
		f.dirs[ino] = path
	}
	return path, nil
}

// fromFiles appends the bytes of a chunk that a file of the home has, and reports whether one does.
func (f *Forest) fromFiles(list []source, h Hash, size int64, dst []byte) ([]byte, bool) {
	start := len(dst)
	for _, s := range list {
		var err error
		if dst, err = f.home.File(s.path, s.offset, size, dst[:start]); err == nil && Sum(dst[start:]) == h {
			return dst, true
		}
	}
	return dst[:start], false
}

// sizeOfUse is the size of a chunk that only files have: that of a part.
func sizeOfUse(tx Tx, h Hash) (int64, error) {
	uses, err := tx.Uses(h, 1)
	if err != nil || len(uses) == 0 {
		return 0, errors.Join(err, &MissingError{h})
	}
	parts, err := tx.Parts(uses[0].Ino)
	if err == nil && uses[0].Index >= len(parts) {
		err = fmt.Errorf("%w: file %d has no window %d", ErrDamaged, uses[0].Ino, uses[0].Index)
	}
	if err != nil {
		return 0, err
	}
	return parts[uses[0].Index].Size, nil
}

// A found is where the bytes of a chunk may be had.
type found struct {
	chunk   Chunk // Where is 0 if there is no row
	sources []source
	damaged bool // the object has other bytes
}

// damagedIn says that an object does not have a chunk.
func damagedIn(c *Chunk) error {
	return fmt.Errorf("%w: the bytes of chunk %s are not in object %d", ErrDamaged, c.Hash, c.At.Object)
}

// find finds where the bytes of a chunk may be had; inline ones are appended to dst at once.
// With files it looks for files that have them even if an object should.
func (f *Forest) find(tx Tx, h Hash, dst []byte, files bool) (found, []byte, error) {
	var out found
	c, err := tx.Chunk(h)
	switch {
	case errors.Is(err, ErrNoRow):
		files = true
	case err != nil:
		return out, dst, err
	default:
		out.chunk = c
	}
	if out.chunk.Where == ChunkInline {
		dst, err = tx.ChunkBytes(h, dst)
		if errors.Is(err, ErrNoRow) {
			err = fmt.Errorf("%w: the bytes of chunk %s are not in the store", ErrDamaged, h)
		}
		return out, dst, err
	}
	if !files || f.home == nil {
		if out.chunk.Where == 0 {
			return out, dst, &MissingError{h}
		}
		return out, dst, nil
	}
	if out.sources, err = f.sources(tx, h); err != nil {
		return out, dst, err
	}
	if out.chunk.Size == 0 {
		out.chunk.Size, err = sizeOfUse(tx, h)
	}
	return out, dst, err
}

// read appends the bytes of a chunk that was found, and reports whether they are had.
func (f *Forest) read(at *found, h Hash, dst []byte) ([]byte, bool) {
	start := len(dst)
	if at.chunk.Where == ChunkObject && f.home != nil {
		var err error
		if dst, err = f.home.Object(at.chunk.At, at.chunk.Size, dst); err == nil && Sum(dst[start:]) == h {
			return dst, true
		}
		// One that is not there has become a file, which a command has changed.
		at.damaged = !errors.Is(err, iofs.ErrNotExist)
	}
	return f.fromFiles(at.sources, h, at.chunk.Size, dst[:start])
}

// chunkNow appends the bytes of a chunk, in a transaction.
func (f *Forest) chunkNow(tx Tx, h Hash, dst []byte) ([]byte, error) {
	at, dst, err := f.find(tx, h, dst, true)
	if err != nil || at.chunk.Where == ChunkInline {
		return dst, err
	}
	dst, ok := f.read(&at, h, dst)
	if !ok {
		return dst, &MissingError{h}
	}
	return dst, nil
}

// Chunk appends the bytes of a chunk to dst. One that is unknown, or that only a file had
// that has changed since, is a *MissingError; bytes of the store that do not have the hash are
// ErrDamaged.
func (f *Forest) Chunk(ctx context.Context, h Hash, dst []byte) ([]byte, error) {
	start := len(dst)
	dst, ok := f.fromHand(h, dst)
	if !ok {
		dst, ok = f.fromListed(h, dst)
	}
	if ok {
		return dst, nil
	}
	var lost error
	// Content moves between objects and files: what is found to be gone is looked for again.
	for attempt := range 3 {
		var at found
		err := f.store.View(ctx, func(tx Tx) error {
			var err error
			at, dst, err = f.find(tx, h, dst[:start], attempt > 0)
			return err
		})
		if err != nil {
			return dst[:start], wrap("read chunk", err)
		}
		if at.chunk.Where == ChunkInline {
			if Sum(dst[start:]) != h {
				return dst[:start], fmt.Errorf("read chunk: %w: the bytes of chunk %s are others", ErrDamaged, h)
			}
			return dst, nil
		}
		if dst, ok = f.read(&at, h, dst[:start]); ok {
			return dst, nil
		}
		if lost = error(&MissingError{h}); at.damaged {
			lost = damagedIn(&at.chunk)
		}
		if attempt == 2 {
			for _, s := range at.sources {
				f.home.Missed(s.path)
			}
		}
	}
	return dst[:start], wrap("read chunk", lost)
}

// Chunks sets into the bytes of chunks, but for those that are not to be had: Chunk says of one
// what is wrong.
func (f *Forest) Chunks(ctx context.Context, hashes []Hash, into map[Hash][]byte) error {
	if len(hashes) == 0 {
		return nil
	}
	places := make([]found, len(hashes))
	err := f.store.View(ctx, func(tx Tx) error {
		for i, h := range hashes {
			at, b, err := f.find(tx, h, nil, false)
			if b != nil {
				into[h] = b
			}
			if err != nil && Code(err) == "" && !errors.Is(err, ErrDamaged) {
				return err
			}
			places[i] = at
		}
		return nil
	})
	if err != nil {
		return wrap("read chunks", err)
	}
	for i, h := range hashes {
		b, had := into[h]
		if !had {
			var ok bool
			if b, ok = f.read(&places[i], h, nil); ok {
				into[h] = b
			}
		} else if Sum(b) != h {
			delete(into, h)
		}
	}
	return nil
}

// A listed chunk is where a file has it that a change stream has listed.
type listed struct {
	path   string
	offset int64
	size   int64
}

// maxListed bounds the chunks of which it is remembered where a change stream has listed them. Others
// are looked for.
const maxListed = 1 << 16

// remember notes where the files of some entries have their content.
func (f *Forest) remember(tree string, entries []Entry) {
	if f.home == nil || tree != f.home.Tree() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range entries {
		for k, p := range entries[i].Parts {
			if len(f.listed) >= maxListed {
				clear(f.listed) // those of streams that nobody has asked for
			}
			f.listed[p.Hash] = listed{entries[i].Path, int64(k) * ChunkSize, p.Size}
		}
	}
}

// fromListed appends the bytes of a chunk that a change stream has listed, and reports whether the
// file has them.
func (f *Forest) fromListed(h Hash, dst []byte) ([]byte, bool) {
	f.mu.Lock()
	at, known := f.listed[h]
	delete(f.listed, h) // most are asked for once
	f.mu.Unlock()
	if !known {
		return dst, false
	}
	return f.fromFiles([]source{{at.path, at.offset}}, h, at.size, dst)
}

// inSomeFile reports whether one of the files that should have a chunk has it. One that does not
// look as it did then is read, and so are all that may not have got it yet.
func (f *finder) inSomeFile(h Hash, onTheWay bool) (bool, error) {
	list, err := f.sources(h)
	if len(list) == 0 || err != nil {
		return false, err
	}
	for _, s := range list {
		if onTheWay {
			break
		}
		if is, err := f.forest.home.Settled(f.tx, s.path); is || err != nil {
			return is, err
		}
	}
	size, err := sizeOfUse(f.tx, h)
	if err != nil {
		return false, err
	}
	_, is := f.forest.fromFiles(list, h, size, nil)
	return is, nil
}

// A Stager keeps content that comes in order, of one file after another. It is for one
// goroutine.
type Stager struct {
	forest *Forest
	w      ObjectWriter // nil without a home
	// written are chunks that are not noted yet: in objects at places, else bytes of them.
	written []Data
	sizes   []int64
	places  []Place
	bytes   int
	added   int
	used    map[int64]bool // whether chunks are in an object that was written
}

// What a Stager notes in one transaction at most.
const (
	stagedRows  = 1000
	stagedBytes = 4 << 20 // of a forest without a home
)

// Stager begins to keep content. Close it.
func (f *Forest) Stager() *Stager {
	s := &Stager{forest: f}
	if f.home != nil {
		s.w, s.used = f.home.Writer(), map[int64]bool{}
	}
	return s
}

// Put keeps a chunk that Check is known to let pass. Its bytes must not be changed until Flush has
// returned. An error may be about those that were given before.
func (s *Stager) Put(ctx context.Context, d Data) error {
	err := s.add(d)
	if err == nil && (len(s.written) >= stagedRows || s.bytes >= stagedBytes) {
		err = s.Flush(ctx)
	}
	return err
}

func (s *Stager) add(d Data) error {
	if s.w != nil {
		at, err := s.w.Write(d.Bytes)
		if err != nil {
			return fmt.Errorf("keep chunks: %w", err)
		}
		if _, known := s.used[at.Object]; !known {
			s.used[at.Object] = false
		}
		s.places = append(s.places, at)
		s.written = append(s.written, Data{Hash: d.Hash, Bytes: nil})
		s.sizes = append(s.sizes, int64(len(d.Bytes)))
	} else {
		s.written = append(s.written, d)
		s.bytes += len(d.Bytes)
	}
	return nil
}

// Flush notes all that was given, in one transaction.
func (s *Stager) Flush(ctx context.Context) error {
	if len(s.written) == 0 {
		return nil
	}
	if s.w != nil {
		if err := s.forest.home.Sync(); err != nil {
			return fmt.Errorf("keep chunks: %w", err)
		}
	}
	added := 0
	hashes := make([]Hash, len(s.written))
	for i := range s.written {
		hashes[i] = s.written[i].Hash
	}
	err := s.forest.store.Update(ctx, func(tx Tx) error {
		added = 0
		if err := tx.Expect(hashes); err != nil {
			return err
		}
		for i := range s.written {
			is, err := s.note(tx, i)
			if err != nil {
				return err
			}
			if is {
				added++
			}
		}
		return nil
	})
	if err == nil {
		s.added += added
		s.written, s.places, s.sizes, s.bytes = s.written[:0], s.places[:0], s.sizes[:0], 0
	}
	return wrap("keep chunks", err)
}

func (s *Stager) note(tx Tx, i int) (bool, error) {
	d, now := &s.written[i], s.forest.now()
	if s.w == nil {
		return tx.PutChunk(d.Hash, d.Bytes, now)
	}
	is, err := tx.PutPlaced(d.Hash, s.sizes[i], s.places[i], now)
	if err == nil && !is {
		var old Chunk
		if old, err = tx.Chunk(d.Hash); err == nil {
			if is, err = s.forest.astray(&old); is {
				err = tx.PlaceChunk(d.Hash, s.places[i])
			}
		}
	}
	if is {
		s.used[s.places[i].Object] = true
	}
	return is, err
}

// astray reports whether a chunk is in an object that does not have it, or not for long. A power cut
// can take bytes whose row is there.
func (f *Forest) astray(c *Chunk) (bool, error) {
	if c.Where != ChunkObject || f.home == nil {
		return false, nil
	}
	has, err := f.home.Has(c.At, c.Size)
	return !has && err == nil, err
}

// Added is how many of the chunks that were noted were new.
func (s *Stager) Added() int { return s.added }

// Close ends it. Objects that nothing is in, since all was there or was not noted, are removed.
func (s *Stager) Close() error {
	if s.w == nil {
		return nil
	}
	err := s.w.Close()
	for object, used := range s.used {
		if !used {
			s.forest.home.Drop(object)
		}
	}
	s.w = nil
	return err
}

// pack keeps chunks in a transaction, in the home's objects of many if there is a home. It returns
// how many were new.
func (f *Forest) pack(tx Tx, chunks []Data, now int64) (int, error) {
	added, packed := 0, false
	for _, c := range chunks {
		is := false
		old, err := tx.Chunk(c.Hash)
		astray := false
		if err == nil {
			astray, err = f.astray(&old)
		}
		switch {
		case astray:
			var at Place
			if at, err = f.home.Pack(c.Bytes); err == nil {
				is, err = true, tx.PlaceChunk(c.Hash, at)
			}
		case f.home == nil || err == nil:
			is, err = tx.PutChunk(c.Hash, c.Bytes, now) // or marks it
		case errors.Is(err, ErrNoRow):
			var at Place
			if at, err = f.home.Pack(c.Bytes); err == nil {
				packed = true
				is, err = tx.PutPlaced(c.Hash, int64(len(c.Bytes)), at, now)
			}
		}
		if err != nil {
			return added, err
		}
		if is {
			added++
		}
	}
	if packed {
		return added, f.home.Sync()
	}
	return added, nil
}

// Pack keeps chunks that have no place in a directory, all or none of them, that Check is known
// to let pass. It returns how many were new to the objects.
func (f *Forest) Pack(ctx context.Context, chunks ...Data) (int, error) {
	var added int
	err := f.store.Update(ctx, func(tx Tx) error {
		var err error
		added, err = f.pack(tx, chunks, f.now())
		return err
	})
	return added, wrap("keep chunks", err)
}

// secure sees to it that a chunk is in the store or in an object, whatever becomes of the files
// that have it.
func (e *Edit) secure(h Hash) (Chunk, error) {
	f := e.tree.forest
	data, err := e.Content(h, nil)
	if err != nil {
		return Chunk{}, err
	}
	if _, err := f.pack(e.tx, []Data{{h, data}}, e.now.UnixMilli()); err != nil {
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
// that is neither in the store nor in an object is a *MissingError. What was found dead lives again.
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

// Release forgets objects that have become files. What others refer to is kept for them. It returns
// the objects that nothing is in any more, for Home.Drop once the edit is kept.
func (e *Edit) Release(list []Became) ([]int64, error) {
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
			err = e.keepShared(b)
		}
	}
	return empty, err
}

// keepShared keeps what is in an object that is released for others.
func (e *Edit) keepShared(b Became) error {
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

// Place says that the chunks of a file are an object now. It returns the objects that nothing is in
// any more, for Home.Drop once the edit is kept.
func (e *Edit) Place(parts []Part, object int64) ([]int64, error) {
	var drop []int64
	at := int64(0)
	for _, p := range parts {
		to := Place{object, at}
		at += p.Size
		is, err := e.tx.PutPlaced(p.Hash, p.Size, to, e.now.UnixMilli())
		if err != nil {
			return nil, err
		}
		if is {
			continue
		}
		old, err := e.tx.Chunk(p.Hash)
		if err == nil && old.At.Object == object {
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
				list, err = f.sources(tx, p.Hash)
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
// consist of.
func (f *Forest) ForgetUnused(ctx context.Context, object int64) error {
	return wrap("forget an object", f.store.Update(ctx, func(tx Tx) error {
		list, err := tx.ChunksIn(object, maxInObject)
		for i := range list {
			if err != nil {
				return err
			}
			var used bool
			if used, err = tx.Referenced(list[i].Hash); err == nil && !used {
				err = tx.DeleteChunk(list[i].Hash)
			}
		}
		return err
	}))
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
