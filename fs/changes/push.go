package changes

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Push takes all entries before it applies the first; an error of the stream leaves the
// tree as it was. They are then applied in one update together with the peer's cursor,
// after the pushes that were complete before. A sender with a revision is the peer: what
// is here already is not changed (so it does not come back for ever), and a replayed
// delete does not remove what has been put in its place, see replay. Without one it is
// somebody else, whose entries are like local changes.
func (s *Server) Push(ctx context.Context, in PushInput, entries Stream[tree.Entry]) (PushResult, error) {
	spool := s.spools.open()
	defer spool.close()
	cur, err := cursorOf(in)
	if err == nil {
		err = drain(ctx, entries, spool)
	}
	entries.Close(err)
	if err != nil {
		return PushResult{}, err
	}
	done, before, err := s.apply(ctx, cur, spool)
	if err != nil {
		return PushResult{}, err
	}
	out := PushResult{Rev: done.Rev, Before: before, Applied: spool.count}
	if cur.Rev > 0 {
		out.AppliedPushCursor = cur
	}
	return out, nil
}

func cursorOf(in PushInput) (tree.Cursor, error) {
	cur := tree.At(in.SenderRev)
	if err := checkRev(in.SenderRev); err != nil {
		return cur, err
	}
	if in.Cursor != nil {
		cur = *in.Cursor
	}
	return cur, checkCursor(cur)
}

func drain(ctx context.Context, entries Stream[tree.Entry], to *spool) error {
	for {
		e, err := entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = CheckEntry(&e)
		}
		if err == nil {
			err = to.add(&e)
		}
		if err != nil {
			return err
		}
	}
}

// apply applies what a peer (cur.Rev > 0) or somebody else has sent. It returns the
// revision before as well.
func (s *Server) apply(ctx context.Context, cur tree.Cursor, in *spool) (Applied, int64, error) {
	select {
	case s.pushing <- struct{}{}:
	case <-ctx.Done():
		return Applied{}, 0, context.Cause(ctx)
	}
	defer func() { <-s.pushing }()

	var before int64
	how := tree.WriteTombs
	from := func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		before = e.Rev()
		return in.all()
	}
	var also func(*tree.Edit) error
	if cur.Rev > 0 {
		p, err := s.tree.Peer(ctx, s.peer)
		if err != nil {
			return Applied{}, 0, err
		}
		how = tree.SkipSame | tree.RealParents
		from = func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
			before = e.Rev()
			r := replay{edit: e, seen: p.Fetch}
			return r.entries(in.all())
		}
		also = func(e *tree.Edit) error {
			_, err := e.SetPeer(tree.Peer{ID: s.peer, Fetch: cur})
			return err
		}
	}
	if in.count > 0 {
		done, err := s.ws.Apply(ctx, from, how, also)
		return done, before, err
	}
	// Nothing is to be seen on disk: only the cursor moves.
	if also == nil {
		info, err := s.tree.Info(ctx)
		return Applied{Rev: info.Rev}, info.Rev, err
	}
	rev, err := s.tree.Update(ctx, also)
	return Applied{Rev: rev}, rev, err
}
