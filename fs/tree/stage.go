package tree

import (
	"context"
	"errors"
	"fmt"
)

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
	open    int64          // the object of the file of which more is to come, 0 for none
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
		if s.open = at.Object; d.Last || len(d.Bytes) < ChunkSize {
			s.open = 0
		}
		if _, known := s.used[at.Object]; !known {
			s.used[at.Object] = false
		}
		if d.Last {
			if err := s.w.Close(); err != nil {
				return fmt.Errorf("keep chunks: %w", err)
			}
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

// Abandon gives up the file of which more was to come, for which there is no room, and what is not
// noted: what is noted of that file is forgotten, unless something refers to it. Close gives back the room of the rest.
func (s *Stager) Abandon(ctx context.Context) error {
	object := s.open
	s.written, s.places, s.sizes, s.bytes, s.open = nil, nil, nil, 0, 0
	if object == 0 || !s.used[object] {
		return nil
	}
	err := s.forest.forget(ctx, object, false)
	if NoRoom(err) {
		err = s.forest.forget(ctx, object, true)
	}
	return wrap("give up chunks", err)
}

// forget removes an object and the rows of its chunks, unless something refers to one of them. The rows
// need room to go. With first the object makes some: until they have gone they are astray, and nothing refers to them.
func (f *Forest) forget(ctx context.Context, object int64, first bool) error {
	unused := false
	err := f.store.Update(ctx, func(tx Tx) error {
		f.sweeps.Add(1) // see Tree.Open
		defer f.sweeps.Add(1)
		unused = false
		list, err := tx.ChunksIn(object, maxInObject)
		if err != nil {
			return err
		}
		for i := range list {
			if used, err := tx.Referenced(list[i].Hash); used || err != nil || f.pinned(list[i].Hash) {
				return err
			}
		}
		if unused = true; first {
			f.home.Drop(object)
		}
		for i := range list {
			if err := tx.DeleteChunk(list[i].Hash); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && unused && !first {
		f.home.Drop(object)
	}
	return err
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
				packed = true
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
