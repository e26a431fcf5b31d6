package changes

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// HasObjects takes up to MaxHashes. Those that are held are not collected for a while
// (tree.MinUnseen), so that the push that needs them finds them.
func (s *Server) HasObjects(ctx context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	if err := checkCount(hashes); err != nil {
		return nil, err
	}
	held, err := s.forest.Held(ctx, hashes)
	if err != nil {
		return nil, err
	}
	out := make([]tree.Hash, 0, len(hashes))
	for i, h := range hashes {
		if held[i] {
			out = append(out, h)
		}
	}
	return out, nil
}

func checkCount(hashes []tree.Hash) error {
	if len(hashes) > MaxHashes {
		return protocolErrorf("%d hashes in one call, of at most %d", len(hashes), MaxHashes)
	}
	return nil
}

// FetchObjects looks for all of the objects before it returns; they stay until the stream
// is closed. It reads one at a time, when it is asked for it. The bytes belong to the caller.
func (s *Server) FetchObjects(ctx context.Context, hashes []tree.Hash) (Stream[tree.Data], error) {
	if err := checkCount(hashes); err != nil {
		return nil, err
	}
	unpin, err := s.forest.Pin(ctx, hashes)
	if err != nil {
		return nil, err
	}
	next := func(ctx context.Context) (d tree.Data, err error) {
		if len(hashes) == 0 {
			return d, io.EOF
		}
		d.Hash = hashes[0]
		if d.Bytes, err = s.forest.Chunk(ctx, d.Hash, nil); err == nil {
			hashes = hashes[1:]
		}
		return d, err
	}
	return FromFunc(next, func(error) { unpin() }), nil
}

// PushObjects keeps objects as they come; a few are read ahead. One whose bytes do not have
// its hash, are too many or none, fails the call with EINVAL. The objects must not be
// changed after they were given.
func (s *Server) PushObjects(ctx context.Context, objects Stream[tree.Data]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan tree.Data, readAhead)
	var (
		reader  sync.WaitGroup
		readErr error
	)
	reader.Go(func() { // ends with the stream, or when nobody takes what it reads
		defer close(queue)
		readErr = readObjects(ctx, objects, queue)
	})
	err := s.keepObjects(ctx, queue)
	cancel()
	reader.Wait()
	if err == nil {
		err = readErr
	}
	objects.Close(err)
	return err
}

// readObjects passes objects on that are what they say. To hash them takes as long as to
// store them, and goes on beside it.
func readObjects(ctx context.Context, objects Stream[tree.Data], queue chan<- tree.Data) error {
	for n := 0; ; n++ {
		d, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == MaxHashes {
			return protocolErrorf("more than %d objects in one call", MaxHashes)
		}
		if err := d.Check(); err != nil {
			return err
		}
		select {
		case queue <- d:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepObjects writes what comes until the queue is closed. Objects that wait to be noted together are noted
// when nothing comes for a moment, so that a push that is cut keeps what it has sent. One for which there is
// no room does not: the rest of it would not become a file by a rename, and the room is for others.
func (s *Server) keepObjects(ctx context.Context, queue <-chan tree.Data) error {
	keep := s.forest.Stager() // for all of it: a file's windows come one after the other
	idle := time.NewTimer(objectsIdle)
	defer idle.Stop()
	for {
		var err error
		select {
		case d, more := <-queue:
			if !more {
				return errors.Join(keep.Flush(ctx), keep.Close())
			}
			err = keep.Put(ctx, d)
			idle.Reset(objectsIdle)
		case <-idle.C:
			err = keep.Flush(ctx)
		}
		if err != nil && tree.NoRoom(err) {
			err = errors.Join(err, keep.Abandon(ctx))
		}
		if err != nil {
			return errors.Join(err, keep.Close())
		}
	}
}
