package tree

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/wsd-dev/wsd/fs/rawname"
)

// maxUses is how many files with a chunk are tried first. If none of them has it, as while a
// directory cannot be read, maxKeepers are.
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

// sources are files of the home that should have a chunk, those of up to limit of its uses.
func (f *Forest) sources(tx Tx, h Hash, limit int) ([]source, error) {
	return (&finder{forest: f, tx: tx}).sources(h, limit)
}

// begin finds the tree of the home, and reports whether there is one.
func (f *finder) begin() (bool, error) {
	if f.forest.home == nil {
		return false, nil
	}
	if f.ns == nil {
		ns, err := f.tx.Namespace(f.forest.home.Tree())
		if errors.Is(err, ErrNoRow) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		f.ns, f.dirs = &ns, map[int64]string{ns.Root: "/"}
	}
	return true, nil
}

func (f *finder) sources(h Hash, limit int) ([]source, error) {
	if home, err := f.begin(); !home || err != nil {
		return nil, err
	}
	uses, err := f.tx.Uses(h, limit)
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

// maxKeepers bounds the files, and maxKept their windows, that are looked at to find out whether files
// keep a chunk. Of more it is not known.
const (
	maxKeepers = 10_000
	maxKept    = 1 << 16
	// maxKeepersNow bounds the files of an edit. Each of many edits may bring one more file with the same
	// content, such as a licence: to look at all others each time would take most of the time. Content
	// of more files stays apart from them until a collection looks at more.
	maxKeepersNow = 64
)

// kept reports whether all that consists of a chunk are files of the home, for each of which has
// reports that the directory has it. It reports false if there are more than most such files, or very many
// windows of them.
func (f *finder) kept(h Hash, most int, has Keeper) (bool, error) {
	if has == nil {
		return false, nil
	}
	var files []int64
	for _, limit := range []int{most + 1, maxKept + 1} { // more uses than files are those of one file with many
		uses, err := f.tx.Uses(h, limit)
		if err != nil || len(uses) == 0 || len(uses) > maxKept {
			return false, err
		}
		if files = filesOf(uses); len(files) > most {
			return false, nil
		}
		if len(uses) < limit {
			break
		}
	}
	if home, err := f.begin(); !home || err != nil {
		return false, err
	}
	for _, ino := range files {
		names, err := f.tx.NamesOf(ino)
		if err != nil || len(names) == 0 {
			return false, err
		}
		for _, n := range names {
			dir, err := f.dir(n.Namespace, n.Parent, 0)
			if dir == "" || err != nil {
				return false, err
			}
			if is, err := has(dir + n.Name); !is || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// filesOf are the files that uses are of, each once.
func filesOf(uses []Use) (files []int64) {
	known := map[int64]struct{}{}
	for _, u := range uses {
		if _, twice := known[u.Ino]; !twice {
			known[u.Ino] = struct{}{}
			files = append(files, u.Ino)
		}
	}
	return files
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
// With files, which is how many of them, it looks for files that have them even if an object should.
func (f *Forest) find(tx Tx, h Hash, dst []byte, files int) (found, []byte, error) {
	var out found
	c, err := tx.Chunk(h)
	switch {
	case errors.Is(err, ErrNoRow):
		files = max(files, maxUses)
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
	if files == 0 || f.home == nil {
		if out.chunk.Where == 0 {
			return out, dst, &MissingError{h}
		}
		return out, dst, nil
	}
	if out.sources, err = f.sources(tx, h, files); err != nil {
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
	start := len(dst)
	for _, files := range []int{maxUses, maxKeepers} {
		at, out, err := f.find(tx, h, dst[:start], files)
		if err != nil || at.chunk.Where == ChunkInline {
			return out, err
		}
		var ok bool
		if dst, ok = f.read(&at, h, out); ok {
			return dst, nil
		}
	}
	return dst[:start], &MissingError{h}
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
			at, dst, err = f.find(tx, h, dst[:start], []int{0, maxUses, maxKeepers}[attempt])
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
			at, b, err := f.find(tx, h, nil, 0)
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
	for _, limit := range []int{maxUses, maxKeepers} {
		list, err := f.sources(h, limit)
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
		if _, is := f.forest.fromFiles(list, h, size, nil); is {
			return true, nil
		}
	}
	return false, nil
}
