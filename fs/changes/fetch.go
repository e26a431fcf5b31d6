package changes

import (
	"context"

	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// FetchChanges settles first; when that fails, it says what the tree has. The stream holds
// the list of paths that changed, and nothing of the store between two reads of it.
func (s *Server) FetchChanges(ctx context.Context, q FetchQuery) (*Fetch, error) {
	return s.fetch(ctx, q, false)
}

// fetch is FetchChanges, for a reader of PlainNames too.
func (s *Server) fetch(ctx context.Context, q FetchQuery, plain bool) (*Fetch, error) {
	open, applied, err := s.changes(ctx, q, plain)
	if err != nil {
		return nil, err
	}
	var page []tree.Entry
	next := func(ctx context.Context) (e tree.Entry, err error) {
		if len(page) == 0 {
			if page, err = open.Next(ctx, fetchPage); err != nil {
				return e, err
			}
		}
		e, page = page[0], page[1:]
		return e, nil
	}
	closed := func(error) { open, page = nil, nil }
	return &Fetch{Current: open.Current, AppliedPush: applied, Entries: FromFunc(next, closed)}, nil
}

// changes opens the change stream of a query. It returns the stored fetch cursor as well.
func (s *Server) changes(ctx context.Context, q FetchQuery, plain bool) (*listing, tree.Cursor, error) {
	var none tree.Cursor
	if err := checkCursor(q.After); err != nil {
		return nil, none, err
	}
	if q.Through != nil {
		if err := checkCursor(*q.Through); err != nil {
			return nil, none, err
		}
	}
	if err := checkIgnore(q.Ignore); err != nil {
		return nil, none, err
	}
	if q.Ignore == nil {
		q.Ignore = s.ignore
	}
	if plain {
		q.encode()
	}
	if err := s.ws.Settle(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, none, context.Cause(ctx)
		}
		s.log.Warn("changes are listed without what is not settled", "err", err)
	}
	var occupied map[string]bool
	if plain {
		occupied = s.occupiedNow()
		if _, err := s.offerAgain(ctx, occupied); err != nil {
			return nil, none, err
		}
	}
	p, err := s.tree.Peer(ctx, s.peer)
	if err != nil {
		return nil, none, err
	}
	open, err := s.tree.Changes(ctx, tree.ChangesQuery{After: q.After, Through: q.Through, Ignore: q.Ignore})
	if err != nil {
		return nil, none, err
	}
	l := &listing{Changes: open, Current: open.Current, plain: plain, server: s, occupied: occupied}
	if l.plain {
		l.Current.Path = rawname.Raw(l.Current.Path)
	}
	return l, p.Fetch, nil
}

// A listing is a change stream as its reader has it.
type listing struct {
	*tree.Changes
	Current tree.Cursor
	plain   bool
	// occupied is for peers of PlainNames.
	server   *Server
	occupied map[string]bool
}

// Next returns up to n entries, and io.EOF after the last one.
func (l *listing) Next(ctx context.Context, n int) ([]tree.Entry, error) {
	for {
		list, err := l.Changes.Next(ctx, n)
		if err != nil || !l.plain {
			return list, err
		}
		if list, err = l.server.pass(ctx, list, l.occupied); err != nil {
			return nil, err
		}
		if list = plainEntries(list); len(list) > 0 {
			return list, nil
		}
	}
}

func checkIgnore(names []string) error {
	if len(names) > MaxIgnored {
		return protocolErrorf("%d names to ignore, of at most %d", len(names), MaxIgnored)
	}
	return nil
}
