package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	var added int
	err := f.store.Update(ctx, func(tx Tx) error {
		var err error
		added, err = putAll(tx, chunks, f.now())
		return err
	})
	return added, wrap("keep chunks", err)
}

func putAll(tx Tx, chunks []Data, now int64) (int, error) {
	added := 0
	for _, c := range chunks {
		is, err := tx.PutChunk(c.Hash, c.Bytes, now)
		if err != nil {
			return added, err
		}
		if is {
			added++
		}
	}
	return added, nil
}

// PutChunks is Forest.PutChunks together with what else the edit does.
func (e *Edit) PutChunks(chunks ...Data) error {
	if err := checkChunks(chunks); err != nil {
		return err
	}
	_, err := putAll(e.tx, chunks, e.now.UnixMilli())
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
// that they are not collected before whoever asks has referred to them.
func (f *Forest) Held(ctx context.Context, hashes []Hash) ([]bool, error) {
	held := make([]bool, len(hashes))
	var stale []int
	now := f.now()
	err := f.store.View(ctx, func(tx Tx) error {
		for i, h := range hashes {
			c, err := tx.Chunk(h)
			if errors.Is(err, ErrNoRow) {
				continue
			}
			if err != nil {
				return err
			}
			held[i] = c.Where != 0
			if held[i] && (c.Seen < now-freshFor || c.Dead != 0) {
				stale = append(stale, i)
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

// Chunk appends the bytes of a chunk to dst. An unknown one is a *MissingError; bytes that
// do not have the hash are ErrDamaged.
func (f *Forest) Chunk(ctx context.Context, h Hash, dst []byte) ([]byte, error) {
	start := len(dst)
	err := f.store.View(ctx, func(tx Tx) error {
		var err error
		if dst, err = tx.ChunkBytes(h, dst[:start]); !errors.Is(err, ErrNoRow) {
			return err
		}
		if _, err := tx.Chunk(h); err != nil {
			return missing(h, err)
		}
		return fmt.Errorf("%w: the bytes of chunk %s are not in the store", ErrDamaged, h)
	})
	if err != nil {
		return dst[:start], wrap("read chunk", err)
	}
	if Sum(dst[start:]) != h {
		return dst[:start], fmt.Errorf("read chunk: %w: the bytes of chunk %s are others", ErrDamaged, h)
	}
	return dst, nil
}

// Chunks sets into the bytes of chunks, read in one view, but for those that are not held
// or are damaged: Chunk says of one what is wrong.
func (f *Forest) Chunks(ctx context.Context, hashes []Hash, into map[Hash][]byte) error {
	if len(hashes) == 0 {
		return nil
	}
	err := f.store.View(ctx, func(tx Tx) error {
		for _, h := range hashes {
			b, err := tx.ChunkBytes(h, nil)
			if err == nil {
				into[h] = b
			} else if !errors.Is(err, ErrNoRow) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return wrap("read chunks", err)
	}
	for _, h := range hashes {
		if b := into[h]; b != nil && Sum(b) != h {
			delete(into, h)
		}
	}
	return nil
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
	}
	if err != nil {
		f.unpin(parts)
		return nil, err
	}
	return sync.OnceFunc(func() { f.unpin(parts) }), nil
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
