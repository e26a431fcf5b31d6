package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	fewRows      = 16
)

// A Policy says what to collect. The zero value means the defaults.
type Policy struct {
	Unseen time.Duration // 0 for DefaultUnseen; at least MinUnseen
	Grace  time.Duration // 0 for DefaultGrace, negative for none
	// MaxBytes is how much garbage may wait for Unseen and Grace: of more the oldest is
	// deleted at once, but for what was seen within MinUnseen. 0 for any, negative for none.
	MaxBytes int64
	// Few has few chunks deleted in a transaction, for a store that has little room.
	Few bool
}

// Collected is what a collection did.
type Collected struct {
	Chunks, Bytes int64 // deleted
	Marked        int64 // found to be garbage, and left for a later collection
	Waiting       int64 // bytes of garbage that are left, with MaxBytes
	Later         int64 // objects that are to be written anew once there is room
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
		forest: f, now: now, rows: collectRows,
		seenBefore: now - max(p.Unseen, MinUnseen).Milliseconds(),
		deadUntil:  now - max(p.Grace, 0).Milliseconds(),
	}
	if p.Few {
		s.rows = fewRows
	}
	since := s.seenBefore
	if p.MaxBytes != 0 {
		since = now - MinUnseen.Milliseconds()
	}
	var rest []Chunk // garbage that is left, with MaxBytes
	err := f.unreferenced(ctx, since, func(list []Chunk) error {
		var old []Chunk
		for _, c := range list {
			if c.Seen < s.seenBefore {
				old = append(old, c)
			}
			if p.MaxBytes != 0 && !s.deletes(&c) {
				rest = append(rest, c)
			}
		}
		return s.takeAll(ctx, old)
	})
	if err == nil && p.MaxBytes != 0 {
		s.seenBefore, s.deadUntil = since, now
		err = s.bound(ctx, rest, max(p.MaxBytes, 0))
	}
	if err == nil && f.home != nil {
		err = s.tidy(ctx)
	}
	return s.done, wrap("collect garbage", err)
}

// deletes reports whether take deletes garbage, rather than mark it or leave it alone.
func (s *sweep) deletes(c *Chunk) bool {
	return c.Seen < s.seenBefore && c.Dead <= s.deadUntil && (c.Dead != 0 || s.deadUntil >= s.now)
}

// unreferenced calls fn with the chunks that nothing refers to, some at a time.
func (f *Forest) unreferenced(ctx context.Context, seenBefore int64, fn func([]Chunk) error) error {
	for after := (Hash{}); ; {
		var list []Chunk
		err := f.store.View(ctx, func(tx Tx) error {
			var err error
			list, err = tx.Unreferenced(after, seenBefore, collectRows)
			return err
		})
		if err != nil {
			return err
		}
		if len(list) > 0 {
			after = list[len(list)-1].Hash
		}
		last := len(list) < collectRows
		if err := fn(list); err != nil || last {
			return err
		}
	}
}

// bound deletes of garbage what is beyond so many bytes: what was marked first, then what
// was seen first.
func (s *sweep) bound(ctx context.Context, all []Chunk, most int64) error {
	for i := range all {
		s.done.Waiting += all[i].Size
	}
	if s.done.Waiting <= most {
		return nil
	}
	slices.SortFunc(all, func(a, b Chunk) int {
		if (a.Dead == 0) != (b.Dead == 0) {
			return cmp.Compare(b.Dead, a.Dead) // those that are not marked come last
		}
		return cmp.Or(cmp.Compare(a.Dead, b.Dead), cmp.Compare(a.Seen, b.Seen))
	})
	n := 0
	for left := s.done.Waiting; n < len(all) && left > most; n++ {
		left -= all[n].Size
	}
	before := s.done.Bytes
	err := s.takeAll(ctx, all[:n])
	s.done.Waiting -= s.done.Bytes - before
	return err
}

// takeAll is take for a list of any length.
func (s *sweep) takeAll(ctx context.Context, list []Chunk) error {
	for len(list) > 0 {
		n, size := 0, int64(0)
		for n < len(list) && n < s.rows && (n == 0 || size+list[n].Size <= collectBytes) {
			size += list[n].Size
			n++
		}
		if err := s.take(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

type sweep struct {
	forest                     *Forest
	now, seenBefore, deadUntil int64
	rows                       int // in a transaction
	done                       Collected
}

// take marks or deletes what is still garbage of the list.
func (s *sweep) take(ctx context.Context, list []Chunk) error {
	var done Collected
	var objects []int64 // that nothing is in any more
	err := s.forest.store.Update(ctx, func(tx Tx) error {
		done, objects = Collected{}, nil
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
			case s.deletes(&c):
				done.Chunks++
				done.Bytes += c.Size
				objects, err = deleteChunk(tx, &c, objects)
			case c.Dead == 0:
				done.Marked++
				err = tx.MarkChunk(c.Hash, c.Seen, s.now)
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
	for _, o := range objects {
		s.forest.home.Drop(o)
	}
	s.done.Chunks += done.Chunks
	s.done.Bytes += done.Bytes
	s.done.Marked += done.Marked
	return nil
}

// deleteChunk deletes a chunk, and adds its object to a list if nothing else is in it.
func deleteChunk(tx Tx, c *Chunk, objects []int64) ([]int64, error) {
	err := tx.DeleteChunk(c.Hash)
	if err != nil || c.Where != ChunkObject {
		return objects, err
	}
	left, err := tx.ChunksIn(c.At.Object, 1)
	if err == nil && len(left) == 0 {
		objects = append(objects, c.At.Object)
	}
	return objects, err
}

// tidy deletes chunks that are in files of the directory as well, and writes objects anew that
// are mostly garbage.
func (s *sweep) tidy(ctx context.Context) error {
	f := s.forest
	for after := (Hash{}); ; {
		var list []Chunk
		err := f.store.View(ctx, func(tx Tx) error {
			var err error
			list, err = tx.ReferencedChunks(after, collectRows)
			return err
		})
		if err != nil {
			return err
		}
		for few := range slices.Chunk(list, tidyRows) {
			if err := s.leaveToFiles(ctx, few); err != nil {
				return err
			}
		}
		if len(list) < collectRows {
			break
		}
		after = list[len(list)-1].Hash
	}
	var all []Object
	err := f.store.View(ctx, func(tx Tx) error {
		var err error
		all, err = tx.Objects()
		return err
	})
	// Each makes room for the next.
	slices.SortFunc(all, func(a, b Object) int { return cmp.Compare(a.Bytes, b.Bytes) })
	for _, o := range all {
		wasted, room := false, true
		if err == nil {
			wasted, room = f.home.Wasted(o)
		}
		if wasted && room {
			err = f.rewrite(ctx, o.Number)
		}
		if !room || NoRoom(err) {
			s.done.Later++
			err = nil
		}
	}
	return err
}

// tidyRows is how many chunks are looked at in one transaction that reads files.
const tidyRows = 16

// leaveToFiles deletes those of some chunks that are in files of the home only, each of which
// has them.
func (s *sweep) leaveToFiles(ctx context.Context, list []Chunk) error {
	f := s.forest
	var objects []int64
	var done Collected
	err := f.store.Update(ctx, func(tx Tx) error {
		objects, done = nil, Collected{}
		for i := range list {
			c, err := tx.Chunk(list[i].Hash)
			if errors.Is(err, ErrNoRow) {
				continue
			}
			if err != nil {
				return err
			}
			in, err := f.inFiles(tx, &c)
			if err == nil && in && !f.pinned(c.Hash) {
				if c.Seen >= f.now()-MinUnseen.Milliseconds() {
					f.tellOf(c.Hash, c.Seen) // as of content that was in files when it was asked about
				}
				done.Chunks++
				done.Bytes += c.Size
				objects, err = deleteChunk(tx, &c, objects)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.done.Chunks += done.Chunks
		s.done.Bytes += done.Bytes
		for _, o := range objects {
			f.home.Drop(o)
		}
	}
	return err
}

// inFiles reports whether all that refers to a chunk are files of the home that have it.
func (f *Forest) inFiles(tx Tx, c *Chunk) (bool, error) {
	find := &finder{forest: f, tx: tx}
	kept, err := find.kept(c.Hash, maxKeepers, func(path string) (bool, error) { return f.home.Settled(tx, path) })
	if !kept || err != nil {
		return false, err
	}
	list, err := find.sources(c.Hash, maxUses) // those that a reader tries
	for i := range list {
		if _, is := f.fromFiles(list[i:i+1], c.Hash, c.Size, nil); !is {
			return false, nil
		}
	}
	return err == nil && len(list) > 0, err
}

// rewrite moves what is left in an object to one of many. Where there is no room for all of it, it
// keeps what it has moved, and fails.
func (f *Forest) rewrite(ctx context.Context, object int64) error {
	for {
		var list []Chunk
		var full error
		packed := map[int64]struct{}{}
		err := f.store.Update(ctx, func(tx Tx) (err error) {
			if list, err = tx.ChunksIn(object, tidyRows); err == nil {
				full, err = f.repack(tx, list, packed)
			}
			return err
		})
		if err != nil {
			return errors.Join(err, f.dropEmpty(context.WithoutCancel(ctx), packed))
		}
		if full != nil {
			return full
		}
		if len(list) < tidyRows {
			f.home.Drop(object)
			return nil
		}
	}
}

// repack moves chunks to objects of many, which it adds to packed, as far as there is room: full says
// that there is none for the rest. The windows that it has moved are on the disk then.
func (f *Forest) repack(tx Tx, list []Chunk, packed map[int64]struct{}) (full, err error) {
	for i := range list {
		data, err := f.home.Object(list[i].At, list[i].Size, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: chunk %s: %w", ErrDamaged, list[i].Hash, err)
		}
		at, err := f.home.Pack(data)
		if NoRoom(err) {
			full = err
			break
		}
		if err != nil {
			return nil, err
		}
		packed[at.Object] = struct{}{}
		if err := tx.PlaceChunk(list[i].Hash, at); err != nil {
			return nil, err
		}
	}
	if len(packed) == 0 {
		return full, nil
	}
	return full, f.home.Sync()
}

// dropEmpty removes those of some objects that no chunk is in. Pack is called only inside Update, so an
// object without rows here has none pending.
func (f *Forest) dropEmpty(ctx context.Context, objects map[int64]struct{}) error {
	if len(objects) == 0 {
		return nil
	}
	return f.store.Update(ctx, func(tx Tx) error {
		for o := range objects {
			left, err := tx.ChunksIn(o, 1)
			if err != nil {
				return err
			}
			if len(left) == 0 {
				f.home.Drop(o)
			}
		}
		return nil
	})
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
			if c.Where != 0 {
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
		case err == nil:
		case errors.Is(err, ErrUnknownHash):
			var c Chunk
			var used bool
			e := f.store.View(ctx, func(tx Tx) (err error) {
				if c, err = tx.Chunk(h); err == nil {
					used, err = tx.Referenced(h)
				}
				return err
			})
			if errors.Is(e, ErrNoRow) || e == nil && (c.Where == 0 || !used) {
				continue // collected meanwhile, or nobody misses it
			}
			if e != nil {
				return i, wrap("verify", e)
			}
			err = damagedIn(&c)
			fallthrough
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
