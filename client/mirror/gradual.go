package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// settleSending settles this side. If the remote has nothing that is to be pulled first, and there
// is much that is new here and nothing else, that is sent meanwhile. It reports whether all was.
func (m *Mirror) settleSending(ctx context.Context, r *Result) (bool, error) {
	local, gradual := m.cfg.Local.(changes.Gradual)
	if gradual {
		var err error
		if gradual, err = m.quiet(ctx); err != nil {
			return false, err
		}
	}
	if !gradual {
		return false, m.settle(ctx)
	}
	parts, done := make(chan struct{}), make(chan struct{})
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { // ends with the workspace, or with gctx
		defer close(parts)
		err := local.SettleBy(gctx, m.limits.objects, m.limits.part, func() bool {
			select {
			case parts <- struct{}{}:
				return true
			case <-done:
			case <-gctx.Done():
			}
			return false
		})
		return settleError(err)
	})
	var sent error
	group.Go(func() error { // ends with the parts
		defer close(done)
		err := m.sendParts(gctx, parts, r)
		if errors.Is(err, errMoved) {
			sent, err = err, nil
		}
		return err
	})
	err := group.Wait()
	return err == nil && sent == nil, err
}

// sendParts sends what comes into the tree in parts. It fails with errMoved if not all is sent.
func (m *Mirror) sendParts(ctx context.Context, parts <-chan struct{}, r *Result) error {
	if _, some := <-parts; !some {
		return errMoved // it is little, or something is gone: it is sent when all is settled
	}
	g := &growing{m: m, parts: parts, upTo: m.s.peer.Push}
	list, err := g.list(ctx)
	if err == nil {
		err = m.pushList(ctx, list, r, false)
	}
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	return nil
}

// growing lists what comes into the tree in parts.
type growing struct {
	m     *Mirror
	parts <-chan struct{}
	ended bool
	upTo  tree.Cursor // what is behind it is not listed yet
}

// list lists what has come since the last time.
func (g *growing) list(ctx context.Context) (*changeList, error) {
	m := g.m
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: g.upTo, Ignore: m.filter.names})
	if err != nil {
		return nil, err
	}
	from := g.upTo
	g.upTo = list.Current
	m.meter.count(func(p *Progress) { p.ToPush += int64(list.Len()) })
	out := &changeList{n: list.Len(), from: from, upTo: list.Current, gone: map[string]bool{}}
	if !g.ended {
		out.more = g.more
	}
	out.next = func(ctx context.Context, limit int) ([]tree.Entry, error) {
		entries, err := list.Next(ctx, limit)
		for i := range entries {
			if e := &entries[i]; e.Kind == tree.KindDelete || m.isRules(e.Path) {
				return nil, errMoved
			}
		}
		return entries, err
	}
	return out, nil
}

// more waits for the next part.
func (g *growing) more(ctx context.Context) (*changeList, error) {
	select {
	case _, some := <-g.parts:
		g.ended = !some
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return g.list(ctx)
}

// quiet reports whether what is new here can be sent before all of it is known: nothing is to be
// pulled or decided before, nothing is removed, and the remote looks at what it has.
func (m *Mirror) quiet(ctx context.Context) (bool, error) {
	s := &m.s
	if !m.checksBase || m.filter.plain || m.heard == nil || !m.heard.unused || m.cfg.Undo || m.cfg.Guard || m.cfg.GitIgnore || m.rulesMoved || m.incoming != nil {
		return false, nil
	}
	none := tree.Cursor{}
	if s.notes.Lost > 0 || s.notes.Toward > 0 || len(s.sent.Prints) > 0 || s.held != nil || s.ignored != nil || s.notes.AgreedPush != none || s.notes.AgreedFetch != none {
		return false, nil
	}
	if len(s.notes.Waits) > 0 || m.lostMore() {
		return false, nil
	}
	if is, err := m.hasRulesFile(ctx); is || err != nil {
		return false, err
	}
	if last, err := lost.Last(ctx, m.forest); err != nil || last > s.notes.OurLost {
		return false, err
	}
	if is, err := m.allPulled(ctx); !is || err != nil {
		return false, err
	}
	return m.nothingGone(ctx)
}

// hasRulesFile reports whether there is a file with rules at the top, here or in the tree.
func (m *Mirror) hasRulesFile(ctx context.Context) (bool, error) {
	if m.cfg.RulesFile == "" {
		return false, nil
	}
	e, err := m.tree.Entry(ctx, m.roots.local+"/"+m.cfg.RulesFile)
	if err == nil && e.Kind != tree.KindDelete || err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return true, err
	}
	_, err = os.Lstat(filepath.Join(m.cfg.Dir, m.cfg.RulesFile))
	return m.cfg.Dir == "" || !errors.Is(err, iofs.ErrNotExist), nil
}

// allPulled reports whether the remote has nothing that is to be pulled. It stores that it has
// not.
func (m *Mirror) allPulled(ctx context.Context) (bool, error) {
	target := tree.At(m.heard.wm.CurrentRev)
	if m.s.peer.Fetch.Compare(target) >= 0 {
		return true, nil
	}
	if is, err := m.nothingNew(ctx, target); !is || err != nil {
		return false, err
	}
	next := m.s
	next.peer.Fetch = target
	return true, m.commit(ctx, next.tidied())
}

// nothingNew reports whether the remote has changed nothing up to a target that a pull would
// take, or take note of.
func (m *Mirror) nothingNew(ctx context.Context, target tree.Cursor) (nothing bool, err error) {
	f, err := m.fetch(ctx, target)
	if _, lost := errors.AsType[*rebaseError](err); lost {
		return false, nil // the pull finds it too
	}
	if err != nil {
		return false, err
	}
	defer func() { f.Entries.Close(err) }()
	known := m.known()
	for {
		e, err := f.Entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("list the remote's changes: %w", err)
		}
		s := item{out: true}
		if m.wanted(&e, &known, &s) || s.tells() {
			return false, nil
		}
	}
}

// nothingGone reports whether nothing was removed here that the remote may have.
func (m *Mirror) nothingGone(ctx context.Context) (bool, error) {
	info, err := m.tree.Info(ctx)
	if err != nil || m.s.peer.Push.Rev > 0 && info.Rev-m.s.peer.Push.Rev > int64(m.limits.ask) {
		return false, err // so much was settled before that it takes longer to look
	}
	removed, err := m.tree.Removed(ctx, m.s.peer.Push, m.filter.names)
	return !removed, err
}
