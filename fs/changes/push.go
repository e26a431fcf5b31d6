package changes

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Push takes all entries before it applies the first; an error of the stream leaves the
// tree as it was. They are then applied in one update together with the peer's cursor,
// after the pushes that were complete before. A sender with a revision is the peer: what
// is here already is not changed (so it does not come back for ever), and a replayed
// delete does not remove what has been put in its place, see replay and unseen. Without one it is
// somebody else, whose entries are like local changes. The entries are as CheckEntry wants them:
// what reads them from a wire has checked them.
func (s *Server) Push(ctx context.Context, in PushInput, entries Stream[tree.Entry]) (PushResult, error) {
	return s.push(ctx, in, entries, false)
}

// push is Push, for a sender of PlainNames too.
func (s *Server) push(ctx context.Context, in PushInput, entries Stream[tree.Entry], plain bool) (PushResult, error) {
	spool := s.spools.open()
	defer spool.close()
	cur, err := cursorOf(in)
	if err == nil {
		err = checkIgnore(in.Ignore)
	}
	if err == nil {
		err = drain(ctx, entries, plain, spool)
	}
	entries.Close(err)
	if err != nil {
		return PushResult{}, err
	}
	done, err := s.apply(ctx, cur, &in, plain, spool)
	if err != nil {
		return PushResult{}, err
	}
	out := PushResult{
		Rev: done.Rev, Before: done.before, Applied: spool.count, Conflicts: done.conflicts,
		Overtaken: done.Overtaken[:min(len(done.Overtaken), MaxOvertaken)],
	}
	out.MoreOvertaken = len(done.Overtaken) - len(out.Overtaken)
	out.Kept = done.Kept[:min(len(done.Kept), MaxKept)]
	out.MoreKept = len(done.Kept) - len(out.Kept)
	out.Disowned = done.Disowned[:min(len(done.Disowned), MaxSkipped)]
	out.MoreDisowned = len(done.Disowned) - len(out.Disowned)
	out.Unwritten, out.MoreUnwritten = done.unwritten, done.moreUnwritten
	if cur.Rev > 0 {
		out.AppliedPushCursor = cur
	}
	return out, nil
}

// unwritten returns the paths of spooled entries that are not on the disk yet, sorted and up to MaxUnwritten,
// and how many more there are.
func (s *Server) unwritten(spooled *spool) (list []string, more int, err error) {
	pushed := make(map[string]bool, spooled.count)
	for e, err := range spooled.all() {
		if err != nil {
			return nil, 0, err
		}
		pushed[e.Path] = true
	}
	of := map[string]bool{} // what is left out for any reason
	count := s.unwrittenOf(pushed, of).Count
	for some := range slices.Chunk(slices.Sorted(maps.Keys(of)), MaxSkipped) {
		for _, p := range s.unwrittenOf(setOf(some), nil).Paths {
			list = append(list, p.Path)
		}
		if len(list) == count || len(list) > MaxUnwritten-MaxSkipped {
			break
		}
	}
	return list, count - len(list), nil
}

// unwrittenOf returns those of some paths that are not on the disk yet. seen, if it is not nil, gets those that are left
// out for any reason.
func (s *Server) unwrittenOf(paths, seen map[string]bool) Skipped {
	for _, left := range s.ws.Skipped(func(path string) bool {
		if seen != nil && paths[path] {
			seen[path] = true
		}
		return paths[path]
	}) {
		if left.Why == Unwritten {
			return left
		}
	}
	return Skipped{}
}

func setOf(paths []string) map[string]bool {
	set := make(map[string]bool, len(paths))
	for _, path := range paths {
		set[path] = true
	}
	return set
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

func drain(ctx context.Context, entries Stream[tree.Entry], plain bool, to *spool) error {
	for {
		e, err := entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if plain {
			encodeEntry(&e)
		} else if err := checkForms(&e); err != nil {
			return err
		}
		if err := to.add(&e); err != nil {
			return err
		}
	}
}

// applied is what apply did.
type applied struct {
	Applied
	before    int64    // the revision before
	conflicts []string // paths of entries that are newer here than their sender knew
	// unwritten are paths of entries that are not on the disk yet.
	unwritten     []string
	moreUnwritten int
}

// apply applies what a peer (cur.Rev > 0) or somebody else has sent, as its
// input says.
func (s *Server) apply(ctx context.Context, cur tree.Cursor, in *PushInput, plain bool, spooled *spool) (applied, error) {
	select {
	case s.pushing <- struct{}{}:
	case <-ctx.Done():
		return applied{}, context.Cause(ctx)
	}
	defer func() { <-s.pushing }()

	var done applied
	var kept []Kept
	var lostNow []lost.Version // links that the sender does not know
	var peer tree.Peer
	how := tree.WriteTombs
	var also func(*tree.Edit) error
	if cur.Rev > 0 {
		var err error
		if peer, err = s.tree.Peer(ctx, s.peer); err != nil {
			return applied{}, err
		}
		how |= tree.SkipSame | tree.RealParents
		if in.Base != nil { // such a sender pushes the deletes of what was in a directory itself
			how &^= tree.WriteTombs
		}
		also = func(e *tree.Edit) error {
			_, err := e.SetPeer(tree.Peer{ID: s.peer, Fetch: cur})
			return err
		}
	}
	if in.Partly {
		how |= AnyRoom
	}
	if in.Times {
		how |= tree.SetTimes
	}
	var renamed map[string]string
	sparing := len(in.Ignore) > 0 || plain && s.hasRaw()
	if sparing {
		var err error
		begun := int64(0)
		if peer.Fetch.Within {
			begun = peer.Fetch.Rev
		}
		if renamed, err = Renames(begun, spooled.all()); err != nil {
			return applied{}, err
		}
	}
	from := func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		done.before = e.Rev()
		entries := Expecting(e, spooled.all())
		if in.Alone && in.Base != nil {
			if err := alone(e, *in.Base); err != nil {
				return func(yield func(tree.Entry, error) bool) { yield(tree.Entry{}, err) }
			}
		}
		if in.Base != nil && tree.At(done.before).Compare(*in.Base) > 0 {
			done.conflicts = nil
			u := unseen{edit: e, base: *in.Base, before: done.before, conflicts: &done.conflicts}
			entries = u.entries(entries)
		}
		if cur.Rev > 0 && in.Base == nil {
			r := replay{edit: e, seen: peer.Fetch}
			entries = r.entries(entries)
		}
		if sparing || plain && s.hasRaw() {
			kept, lostNow = nil, nil
			sp := sparer{ignore: in.Ignore, plain: plain, edit: e, kept: &kept, lost: &lostNow}
			entries = sp.entries(renamed, entries)
		}
		return entries
	}
	if spooled.count > 0 {
		var err error
		done.Applied, err = s.ws.Apply(ctx, from, how, also)
		if pending, ok := errors.AsType[*PendingError](err); ok && pending.Partly && in.Partly {
			done.unwritten, done.moreUnwritten, err = s.unwritten(spooled)
		}
		done.Kept = Topmost(append(kept, done.Kept...))
		if err == nil {
			done.Overtaken = append(lostNow, done.Overtaken...)
		}
		if n := len(done.Overtaken); n > 0 {
			first := &done.Overtaken[0]
			s.log.Warn("what was pushed took the place of versions that nobody had seen; they are kept",
				"versions", n, "path", first.Path, "version", first.ID)
		}
		return done, err
	}
	// Nothing is to be seen on disk: only the cursor moves.
	if also == nil {
		info, err := s.tree.Info(ctx)
		return applied{Applied: Applied{Rev: info.Rev}, before: info.Rev}, err
	}
	rev, err := s.tree.Update(ctx, also)
	return applied{Applied: Applied{Rev: rev}, before: rev}, err
}
