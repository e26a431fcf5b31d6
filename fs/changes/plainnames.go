package changes

import (
	"context"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// PlainNames is the server as peers have it that take paths for what they are: UTF-8, with
// nothing that stands for a byte (package rawname). Such peers do not see names that are not
// UTF-8, nor what is below them, and a link to what is not UTF-8 is no link to them. A
// push of theirs that removes something leaves those, and the directories that they are in.
func (s *Server) PlainNames() Peer { return plainNames{s} }

type plainNames struct{ *Server }

// Watermarks implements Peer. Names that the peer does not see count as skipped.
func (p plainNames) Watermarks(ctx context.Context, settle bool) (Watermarks, error) {
	w, err := p.Server.Watermarks(ctx, settle)
	if err != nil {
		return w, err
	}
	if again, err := p.offerAgain(ctx, p.occupiedNow()); err != nil {
		return w, err
	} else if again {
		if w, err = p.Server.Watermarks(ctx, false); err != nil {
			return w, err
		}
	}
	w.AnyNames = false
	hidden, _ := p.ws.NotUTF8(nil)
	w.Skipped = WithSkipped(w.Skipped, hidden)
	for i := range w.Skipped {
		of := &w.Skipped[i]
		paths := make([]SkippedPath, len(of.Paths))
		for j, path := range of.Paths {
			paths[j] = SkippedPath{Path: rawname.Show(path.Path), Error: path.Error}
		}
		of.Paths = paths
	}
	return w, nil
}

// Push implements Peer.
func (p plainNames) Push(ctx context.Context, in PushInput, entries Stream[tree.Entry]) (PushResult, error) {
	in.Ignore = encodeAll(in.Ignore)
	if in.Base != nil {
		base := encodeCursor(*in.Base)
		in.Base = &base
	}
	r, err := p.push(ctx, in, entries, true)
	if err != nil {
		return r, err
	}
	r.Conflicts, r.Disowned, r.Unwritten = plainAll(r.Conflicts), plainAll(r.Disowned), plainAll(r.Unwritten)
	for i, k := range r.Kept {
		r.Kept[i] = Kept{Path: rawname.Show(k.Path), Names: plainAll(k.Names), More: k.More}
	}
	r.Overtaken = plainVersions(r.Overtaken)
	return r, nil
}

// FetchChanges implements Peer.
func (p plainNames) FetchChanges(ctx context.Context, q FetchQuery) (*Fetch, error) {
	return p.fetch(ctx, q, true)
}

// ReadEntry implements Peer.
func (p plainNames) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	e, err := p.Server.ReadEntry(ctx, rawname.Encode(path))
	if err != nil || e == nil {
		return nil, err
	}
	list := plainEntries([]tree.Entry{*e})
	if len(list) == 0 {
		return nil, nil
	}
	return &list[0], nil
}

// FetchChangePack implements Peer.
func (p plainNames) FetchChangePack(ctx context.Context, q PackQuery) (*Pack, error) {
	return p.fetchPack(ctx, q, true)
}

// ApplyChangePack implements Peer.
func (p plainNames) ApplyChangePack(ctx context.Context, generation string, pieces Stream[[]byte]) (PackResult, error) {
	return p.applyPack(ctx, generation, pieces, true)
}

// Lost implements Peer.
func (p plainNames) Lost(ctx context.Context, after int64, limit int) ([]lost.Version, bool, error) {
	for {
		list, more, err := p.Server.Lost(ctx, after, limit)
		shown := plainVersions(list)
		if err != nil || !more || len(shown) > 0 {
			return shown, more, err
		}
		after = list[len(list)-1].ID
	}
}

// hasRaw reports whether the tree may have what peers of PlainNames do not see.
func (s *Server) hasRaw() bool {
	list, known := s.ws.NotUTF8(nil)
	return list.Count > 0 || !known
}

// rawLink reports whether an entry is a link to what is not UTF-8.
func rawLink(e *tree.Entry) bool {
	if e.Kind != tree.KindSymlink {
		return false
	}
	_, plain := rawname.Plain(e.Target)
	return !plain
}

// plainChild reports whether a peer of PlainNames knows what is in a directory.
func plainChild(c *tree.Child) bool {
	_, plain := rawname.Plain(c.Name.Name)
	if plain && c.Node.Kind == tree.KindSymlink {
		_, plain = rawname.Plain(c.Node.Target)
	}
	return plain
}

// plainEntries are entries as peers of PlainNames have them.
func plainEntries(list []tree.Entry) []tree.Entry {
	out := list[:0]
	for _, e := range list {
		path, ok := rawname.Plain(e.Path)
		if !ok {
			continue
		}
		if e.Path = path; rawLink(&e) {
			e = tree.Entry{Kind: tree.KindDelete, Rev: e.Rev, Path: path}
		}
		e.Target = rawname.Raw(e.Target)
		if e.RenamedTo, ok = rawname.Plain(e.RenamedTo); !ok {
			e.RenamedTo = "" // it is gone
		}
		out = append(out, e)
	}
	return out
}

func plainVersions(list []lost.Version) []lost.Version {
	var out []lost.Version
	for _, v := range list {
		path, ok := rawname.Plain(v.Path)
		if !ok || rawLink(&v.Entry) {
			continue
		}
		v.Path, v.Entry.Path, v.Entry.Target = path, rawname.Raw(v.Entry.Path), rawname.Raw(v.Entry.Target)
		out = append(out, v)
	}
	return out
}

// plainAll are paths as peers of PlainNames have them, or as people read them.
func plainAll(list []string) []string {
	var out []string
	for _, path := range list {
		out = append(out, rawname.Show(path))
	}
	return out
}

func encodeAll(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, name := range list {
		out[i] = rawname.Encode(name)
	}
	return out
}

func encodeEntry(e *tree.Entry) {
	e.Path, e.Target, e.RenamedTo = rawname.Encode(e.Path), rawname.Encode(e.Target), rawname.Encode(e.RenamedTo)
}

func encodeCursor(c tree.Cursor) tree.Cursor {
	c.Path = rawname.Encode(c.Path)
	return c
}

// encode has the paths of a query name what a peer of PlainNames means.
func (q *FetchQuery) encode() {
	q.After, q.Ignore = encodeCursor(q.After), encodeAll(q.Ignore)
	if q.Through != nil {
		through := encodeCursor(*q.Through)
		q.Through = &through
	}
}

// checkForms refuses an entry with a path or target that is the form of no name.
func checkForms(e *tree.Entry) error {
	for _, text := range []string{e.Path, e.Target, e.RenamedTo} {
		if err := tree.CheckForm(text); err != nil {
			return Invalid(e.Path, "%w", err)
		}
	}
	return nil
}
