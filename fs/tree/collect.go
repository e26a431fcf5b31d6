package tree

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How a collection decides, unless told otherwise.
const (
	// DefaultUnseen is how long ago a chunk must have been seen to be garbage.
	DefaultUnseen = time.Hour
	// DefaultGrace is how long a chunk stays after it was first found to be garbage.
	DefaultGrace = time.Hour
	// MinUnseen is the least time, whatever the policy says: what a push has brought, or
	// was told is here, must stay until the push refers to it.
	MinUnseen = 15 * time.Minute
)

// What one transaction of a collection deletes at most.
const (
	collectRows  = 1000
	collectBytes = 64 << 20
)

// A Policy says what to collect. The zero value means the defaults.
type Policy struct {
	Unseen time.Duration // 0 for DefaultUnseen; at least MinUnseen
	Grace  time.Duration // 0 for DefaultGrace, negative for none
}

// Collected is what a collection did.
type Collected struct {
	Chunks, Bytes int64 // deleted
	Marked        int64 // found to be garbage, and left for a later collection
}

// Collect deletes chunks that are garbage. Garbage is what no file consists of, no reader
// has open, and nobody has pushed or asked for within Policy.Unseen. The first collection
// that finds it only marks it; one that comes Policy.Grace later deletes it, so that what
// was offered to a peer can still be fetched when its file has changed, and a clock that
// jumps costs nothing. Whatever refers to a chunk again takes the mark away.
//
// Deleting is decided in the transaction that deletes, which runs beside no other change:
// a push before it has refreshed its chunks, one after it is told that they are missing.
// Each transaction is small.
func (f *Forest) Collect(ctx context.Context, p Policy) (Collected, error) {
	if p.Unseen == 0 {
		p.Unseen = DefaultUnseen
	}
	if p.Grace == 0 {
		p.Grace = DefaultGrace
	}
	now := f.now()
	s := sweep{
		forest: f, now: now,
		seenBefore: now - max(p.Unseen, MinUnseen).Milliseconds(),
		deadUntil:  now - max(p.Grace, 0).Milliseconds(),
	}
	for after := (Hash{}); ; {
		var list []Chunk
		err := f.store.View(ctx, func(tx Tx) error {
			var err error
			list, err = tx.Unreferenced(after, s.seenBefore, collectRows)
			return err
		})
		if err != nil {
			return s.done, wrap("collect garbage", err)
		}
		for rest := list; len(rest) > 0; {
			n, size := 0, int64(0)
			for n < len(rest) && (n == 0 || size+rest[n].Size <= collectBytes) {
				size += rest[n].Size
				n++
			}
			if err := s.take(ctx, rest[:n]); err != nil {
				return s.done, wrap("collect garbage", err)
			}
			rest = rest[n:]
		}
		if len(list) < collectRows {
			return s.done, nil
		}
		after = list[len(list)-1].Hash
	}
}

type sweep struct {
	forest                     *Forest
	now, seenBefore, deadUntil int64
	done                       Collected
}

// take marks or deletes what is still garbage of the list.
func (s *sweep) take(ctx context.Context, list []Chunk) error {
	var done Collected
	err := s.forest.store.Update(ctx, func(tx Tx) error {
		done = Collected{}
		s.forest.sweeps.Add(1) // see Tree.Open
		defer s.forest.sweeps.Add(1)
		for _, c := range list {
			// The list is of an earlier moment: ask again.
			c, garbage, err := s.garbage(tx, c.Hash)
			if err != nil {
				return err
			}
			if !garbage {
				continue
			}
			switch {
			case c.Dead == 0 && s.deadUntil < s.now:
				done.Marked++
				err = tx.MarkChunk(c.Hash, c.Seen, s.now)
			case c.Dead <= s.deadUntil:
				done.Chunks++
				done.Bytes += c.Size
				err = tx.DeleteChunk(c.Hash)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.done.Chunks += done.Chunks
	s.done.Bytes += done.Bytes
	s.done.Marked += done.Marked
	return nil
}

func (s *sweep) garbage(tx Tx, h Hash) (Chunk, bool, error) {
	c, err := tx.Chunk(h)
	if errors.Is(err, ErrNoRow) {
		return c, false, nil
	}
	if err != nil || c.Seen >= s.seenBefore || s.forest.pinned(h) {
		return c, false, err
	}
	used, err := tx.Referenced(h)
	return c, !used, err
}

// Verify reads all chunks and compares them with their hashes. It returns the number it
// read and an ErrDamaged that names each loss, up to a hundred of them.
func (f *Forest) Verify(ctx context.Context) (int, error) {
	var hashes []Hash
	err := f.store.View(ctx, func(tx Tx) error {
		return tx.EachChunk(func(c Chunk, _ int64) error {
			if c.Where&ChunkInline != 0 {
				hashes = append(hashes, c.Hash)
			}
			return nil
		})
	})
	if err != nil {
		return 0, wrap("verify", err)
	}
	var lost []error
	var buf []byte
	for i, h := range hashes {
		buf, err = f.Chunk(ctx, h, buf[:0])
		switch {
		case err == nil, errors.Is(err, ErrUnknownHash): // collected meanwhile
		case errors.Is(err, ErrDamaged):
			if lost = append(lost, err); len(lost) == 100 {
				return i + 1, errors.Join(append(lost, fmt.Errorf("%w: and perhaps more", ErrDamaged))...)
			}
		default:
			return i, err
		}
	}
	return len(hashes), errors.Join(lost...)
}
