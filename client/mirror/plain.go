package mirror

import (
	"context"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A remote that does not know names of any bytes (changes.Watermarks.AnyNames) takes paths for
// what they are. Names that are not UTF-8 are ignored then, and named as left out.

// takeNames notes which names the remote knows.
func (m *Mirror) takeNames(wm *changes.Watermarks) {
	if plain := !wm.AnyNames; plain != m.filter.plain {
		f := *m.filter
		f.plain = plain
		// Outside of connect, which stores it, the next pull does.
		m.filter, m.plain, m.rulesMoved = &f, plain, true
	}
}

// remote is the remote, which is called with paths as this side has them.
func (m *Mirror) remote() changes.Peer {
	if m.plain {
		return plainRemote{m.cfg.Remote}
	}
	return m.cfg.Remote
}

// isPlain reports whether a path is UTF-8.
func isPlain(path string) bool {
	if !rawname.Has(path) {
		return true
	}
	_, plain := rawname.Plain(path)
	return plain
}

// unknown reports whether something at a path is none that the remote can have: for its name, or
// since it is a link to what is not UTF-8.
func (m *Mirror) unknown(e *tree.Entry) bool {
	return m.filter.plain && (!isPlain(e.Path) || isRawLink(e))
}

// isRawLink reports whether an entry is a link to what is not UTF-8.
func isRawLink(e *tree.Entry) bool { return e.Kind == tree.KindSymlink && !isPlain(e.Target) }

// hasRaw reports whether this side may have something that the remote can not.
func (m *Mirror) hasRaw() bool {
	if !m.filter.plain {
		return false
	}
	list, known := m.cfg.Local.NotUTF8(nil)
	return list.Count > 0 || !known
}

// notSent is what of this side the remote can not have.
func (m *Mirror) notSent() changes.Skipped {
	if !m.filter.plain {
		return changes.Skipped{}
	}
	all := *m.filter
	all.plain = false
	list, _ := m.cfg.Local.NotUTF8(func(path string) bool { return m.looksAtBy(&all, path) })
	return list
}

// sendable is a cursor of this side that the remote stores, or the last one before it, behind which
// some is sent again. A remote that takes paths for what they are refuses a cursor whose text is
// longer than a path: a byte of a path of this side may be a character there.
func (m *Mirror) sendable(c, last tree.Cursor) tree.Cursor {
	if m.filter.plain && len(c.Path) > tree.MaxPath {
		return last
	}
	return c
}

// A plainRemote is a remote that takes paths for what they are.
type plainRemote struct{ changes.Peer }

// Push implements changes.Peer.
func (p plainRemote) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	in.Ignore = plainNames(in.Ignore)
	if in.Base != nil {
		base := rawCursor(*in.Base)
		in.Base = &base
	}
	r, err := p.Peer.Push(ctx, in, changes.FromFunc(func(ctx context.Context) (tree.Entry, error) {
		e, err := entries.Next(ctx)
		e.Path, e.Target = rawname.Raw(e.Path), rawname.Raw(e.Target)
		var plain bool
		if e.RenamedTo, plain = rawname.Plain(e.RenamedTo); !plain {
			e.RenamedTo = "" // it is gone
		}
		return e, err
	}, entries.Close))
	encodeAll(r.Conflicts)
	encodeAll(r.Disowned)
	encodeAll(r.Unwritten)
	for i := range r.Kept {
		r.Kept[i].Path = rawname.Encode(r.Kept[i].Path)
		encodeAll(r.Kept[i].Names)
	}
	encodeVersions(r.Overtaken)
	return r, err
}

// FetchChanges implements changes.Peer.
func (p plainRemote) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	q.After, q.Ignore = rawCursor(q.After), plainNames(q.Ignore)
	if q.Through != nil {
		through := rawCursor(*q.Through)
		q.Through = &through
	}
	f, err := p.Peer.FetchChanges(ctx, q)
	if err != nil {
		return nil, err
	}
	f.Current.Path = rawname.Encode(f.Current.Path)
	entries := f.Entries
	f.Entries = changes.FromFunc(func(ctx context.Context) (tree.Entry, error) {
		e, err := entries.Next(ctx)
		encodeEntry(&e)
		return e, err
	}, entries.Close)
	return f, nil
}

// ReadEntry implements changes.Peer.
func (p plainRemote) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	if !isPlain(path) {
		return nil, nil
	}
	e, err := p.Peer.ReadEntry(ctx, rawname.Raw(path))
	if e != nil {
		encodeEntry(e)
	}
	return e, err
}

// Lost implements changes.Peer.
func (p plainRemote) Lost(ctx context.Context, after int64, limit int) ([]lost.Version, bool, error) {
	list, more, err := p.Peer.Lost(ctx, after, limit)
	encodeVersions(list)
	return list, more, err
}

// plainNames are the names to ignore that the remote can have.
func plainNames(names []string) []string {
	if names == nil {
		return nil
	}
	out := []string{}
	for _, name := range names {
		if raw, plain := rawname.Plain(name); plain {
			out = append(out, raw)
		}
	}
	return out
}

func encodeEntry(e *tree.Entry) {
	e.Path, e.Target, e.RenamedTo = rawname.Encode(e.Path), rawname.Encode(e.Target), rawname.Encode(e.RenamedTo)
}

func encodeVersions(list []lost.Version) {
	for i := range list {
		list[i].Path = rawname.Encode(list[i].Path)
		encodeEntry(&list[i].Entry)
	}
}

func encodeAll(paths []string) {
	for i, path := range paths {
		paths[i] = rawname.Encode(path)
	}
}

func rawCursor(c tree.Cursor) tree.Cursor {
	c.Path = rawname.Raw(c.Path)
	return c
}
