package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// freshFor is how long, in milliseconds, a chunk that was seen needs no new note of it.
// It is well below MinUnseen.
const freshFor = 5 * 60 * 1000

// Data is a chunk with its bytes.
type Data struct {
	Hash  Hash
	Bytes []byte // 1 to ChunkSize of them
	// Last: no other window of the same file follows. A window of less than ChunkSize tells by itself.
	Last bool
}

// PutChunks keeps chunks, all or none of them. A chunk whose bytes do not have its hash
// is ErrInvalid. Chunks that nothing refers to are safe from collection for a while, see
// Collect; giving them again begins that anew. It returns how many were new.
func (f *Forest) PutChunks(ctx context.Context, chunks ...Data) (int, error) {
	if err := checkChunks(chunks); err != nil {
		return 0, err
	}
	return f.PutChecked(ctx, chunks...)
}

// Check is ErrInvalid for what cannot be a chunk, or has another hash.
func (d *Data) Check() error {
	if len(d.Bytes) == 0 || len(d.Bytes) > ChunkSize {
		return fmt.Errorf("%w: a chunk of %d bytes", ErrInvalid, len(d.Bytes))
	}
	if Sum(d.Bytes) != d.Hash {
		return fmt.Errorf("%w: the bytes given as chunk %s have another hash", ErrInvalid, d.Hash)
	}
	return nil
}

func checkChunks(chunks []Data) error {
	for i := range chunks {
		if err := chunks[i].Check(); err != nil {
			return err
		}
	}
	return nil
}

// PutChecked is PutChunks for chunks that Check is known to let pass.
func (f *Forest) PutChecked(ctx context.Context, chunks ...Data) (int, error) {
	s := f.Stager()
	var err error
	for _, c := range chunks {
		if err = s.add(c); err != nil {
			break
		}
	}
	if err == nil {
		err = s.Flush(ctx)
	}
	return s.Added(), errors.Join(err, s.Close())
}

// PutChunks is Forest.PutChunks together with what else the edit does.
func (e *Edit) PutChunks(chunks ...Data) error {
	if err := checkChunks(chunks); err != nil {
		return err
	}
	_, err := e.tree.forest.pack(e.tx, chunks, e.now.UnixMilli())
	return err
}

// stageAtOnce is how many bytes Stage keeps in memory, and writes in one transaction.
const stageAtOnce = 8 * ChunkSize

// Stage reads r to its end, keeps what it gives as chunks and returns the parts, for
// PutFile. If r fails, what was kept is garbage.
func (f *Forest) Stage(ctx context.Context, r io.Reader) ([]Part, error) {
	parts, rest, err := f.stage(ctx, r)
	if err == nil && len(rest) > 0 {
		_, err = f.PutChecked(ctx, rest...)
	}
	return parts, err
}

// stage is Stage, but leaves the last chunks to the caller.
func (f *Forest) stage(ctx context.Context, r io.Reader) (parts []Part, chunks []Data, err error) {
	buf := make([]byte, 0, ChunkSize) // most files fit, and need no more
	for done := false; !done; {
		if len(chunks) > 0 {
			if _, err := f.PutChecked(ctx, chunks...); err != nil {
				return nil, nil, err
			}
		}
		buf, chunks = buf[:0], nil
		for !done && len(buf) < stageAtOnce {
			if cap(buf)-len(buf) < ChunkSize {
				buf = append(make([]byte, 0, stageAtOnce), buf...)
			}
			n, err := io.ReadFull(r, buf[len(buf):len(buf)+ChunkSize])
			done = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if err != nil && !done {
				return nil, nil, err
			}
			buf = buf[:len(buf)+n]
		}
		for at := 0; at < len(buf); at += ChunkSize {
			b := buf[at:min(at+ChunkSize, len(buf))]
			d := Data{Hash: Sum(b), Bytes: b}
			chunks, parts = append(chunks, d), append(parts, Part{d.Hash, int64(len(b))})
		}
	}
	return parts, chunks, nil
}

// Held reports for each hash whether its chunk is held. Those that are count as seen, so
// that they are not collected before whoever asks has referred to them. A chunk that only files
// of the home have is held as long as they do not change.
func (f *Forest) Held(ctx context.Context, hashes []Hash) ([]bool, error) {
	held := make([]bool, len(hashes))
	var stale []int
	now := f.now()
	err := f.store.View(ctx, func(tx Tx) error {
		for from := 0; from < len(hashes); from += page {
			some := hashes[from:min(from+page, len(hashes))]
			old, err := f.heldNow(tx, some, held[from:])
			if err != nil {
				return err
			}
			for _, i := range old {
				stale = append(stale, from+i)
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrap("look for chunks", err)
	}
	for len(stale) > 0 {
		n := min(page, len(stale))
		err := f.store.Update(ctx, func(tx Tx) error {
			for _, i := range stale[:n] {
				c, err := tx.Chunk(hashes[i])
				if held[i] = err == nil && c.Where != 0; held[i] {
					err = tx.MarkChunk(c.Hash, max(now, c.Seen), 0)
				}
				if err != nil && !errors.Is(err, ErrNoRow) { // it may have been collected just now
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, wrap("note that chunks were seen", err)
		}
		stale = stale[n:]
	}
	return held, nil
}

// heldNow sets which chunks are held, and returns those that are to be noted as seen.
func (f *Forest) heldNow(tx Tx, hashes []Hash, held []bool) (stale []int, err error) {
	if err := tx.Expect(hashes); err != nil {
		return nil, err
	}
	now := f.now()
	missing := map[Hash][]int{} // which only files may have
	lost := map[Hash]bool{}     // the object of which is not there
	for i, h := range hashes {
		c, err := tx.Chunk(h)
		astray := false
		if err == nil {
			astray, err = f.astray(&c)
		}
		switch {
		case astray || errors.Is(err, ErrNoRow):
			missing[h] = append(missing[h], i)
			lost[h] = astray
		case err != nil:
			return nil, err
		default:
			held[i] = c.Where != 0
			if held[i] && (c.Seen < now-freshFor || c.Dead != 0) {
				stale = append(stale, i)
			}
		}
	}
	if f.home == nil || len(missing) == 0 {
		return stale, nil
	}
	var used []Hash
	err = tx.CountUses(slices.Collect(maps.Keys(missing)), 1, func(h Hash, _ int) error {
		used = append(used, h)
		return nil
	})
	find := &finder{forest: f, tx: tx}
	for _, h := range used {
		is := false
		if err == nil {
			is, err = find.inSomeFile(h, lost[h])
		}
		if is {
			f.tellOf(h, now)
		}
		for _, i := range missing[h] {
			held[i] = is
		}
	}
	return stale, err
}

// maxTold bounds the chunks of which it is known that peers were told of them. Of more, those are
// forgotten that were told of longest ago: a push that counts on them is told what is missing.
const maxTold = 200_000

// tellOf notes that a peer is told that files have a chunk.
func (f *Forest) tellOf(h Hash, now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for since := now - MinUnseen.Milliseconds(); len(f.told) >= maxTold; since = (since + now + 1) / 2 {
		for h, at := range f.told {
			if at < since || since >= now {
				delete(f.told, h)
			}
		}
	}
	f.told[h] = now
}

// Wanted reports whether a peer was told not long ago that files have a chunk.
func (f *Forest) Wanted(h Hash) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, told := f.told[h]
	return told && at >= f.now()-MinUnseen.Milliseconds()
}

// Arrived ends what Wanted says of the content of a file: a peer has sent the entry that needed it.
func (f *Forest) Arrived(parts []Part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range parts {
		delete(f.told, p.Hash)
	}
}

// missing turns ErrNoRow into what says which chunk it is.
func missing(h Hash, err error) error {
	if errors.Is(err, ErrNoRow) {
		return &MissingError{h}
	}
	return err
}

func wrongSize(p Part, size int64) error {
	return fmt.Errorf("%w: chunk %s has %d bytes, not %d", ErrInvalid, p.Hash, size, p.Size)
}

// Pin keeps chunks from being collected until unpin is called. When one of them is not
// held, the error says which (a *MissingError) and nothing is pinned.
func (f *Forest) Pin(ctx context.Context, hashes []Hash) (unpin func(), err error) {
	parts := make([]Part, len(hashes))
	for i, h := range hashes {
		parts[i].Hash = h
	}
	// First, so that no collection begins to delete what is then found to be held. One
	// that is under way deletes nothing that Held has seen, see there.
	f.pin(parts)
	held, err := f.Held(ctx, hashes)
	if i := slices.Index(held, false); err == nil && i >= 0 {
		err = &MissingError{hashes[i]}
		if e := f.miss(ctx, hashes, held); e != nil {
			err = e
		}
	}
	if err != nil {
		f.unpin(parts)
		return nil, err
	}
	return sync.OnceFunc(func() { f.unpin(parts) }), nil
}

// miss tells the home of chunks that were asked for and that its files do not have any more.
func (f *Forest) miss(ctx context.Context, hashes []Hash, held []bool) error {
	if f.home == nil {
		return nil
	}
	var lost []source
	err := f.store.View(ctx, func(tx Tx) error {
		lost = nil
		for i, h := range hashes {
			if held[i] {
				continue
			}
			list, err := f.sources(tx, h, maxUses)
			if err != nil {
				return err
			}
			lost = append(lost, list...)
		}
		return nil
	})
	for _, s := range lost {
		f.home.Missed(s.path)
	}
	return wrap("look for chunks", err)
}

// pin keeps chunks from being collected until unpin.
func (f *Forest) pin(parts []Part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range parts {
		f.pins[p.Hash]++
	}
}

func (f *Forest) unpin(parts []Part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range parts {
		if f.pins[p.Hash]--; f.pins[p.Hash] == 0 {
			delete(f.pins, p.Hash)
		}
	}
}

func (f *Forest) pinned(h Hash) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pins[h] > 0
}
