package mirror

import (
	"context"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An item is an entry of a change stream, or one that is left out.
type item struct {
	entry tree.Entry // as the other end calls it
	out   bool       // it is left out
	parts []tree.Part
	at    tree.Cursor // behind it
	path  string      // of the local tree
	holds bool        // it changes what is withheld at the path, to hold
	hold  *held
	// top is a path that rules hide and that the remote has, or if not hidden has no more.
	top    string
	hidden bool
	again  bool // both sides have agreed on the entry, and all is compared anew
	stays  *changes.Kept
	// blocked is what the remote has there that rules hide, "" for nothing.
	blocked string
}

// tells reports whether there is something to know of an item that is left out.
func (s *item) tells() bool { return s.holds || s.top != "" || s.again || s.stays != nil }

// A packer packs the items of a change stream into blocks. It reads some ahead, and asks about
// the content of all of them at once. Content that an earlier block of the stream brings is
// not in another one.
type packer struct {
	limits  limits
	most    int // entries of a block
	lacking func(context.Context, []tree.Hash) ([]tree.Hash, error)
	send    func(context.Context, *block) error

	rev   int64 // of the last entry that is in a block
	items []item
	ask   []tree.Hash            // that are not asked about yet
	known map[tree.Hash]struct{} // those, and those that are
	lacks map[tree.Hash]struct{} // what no block brings yet
	block block
	text  int
	// flushed is the cursor of what was sent by flush last.
	flushed tree.Cursor
}

func newPacker(from tree.Cursor, l limits, most int, lacking func(context.Context, []tree.Hash) ([]tree.Hash, error), send func(context.Context, *block) error) *packer {
	rev := int64(0)
	if from.Within {
		rev = from.Rev
	}
	return &packer{rev: rev, limits: l, most: most, lacking: lacking, send: send, known: map[tree.Hash]struct{}{}, lacks: map[tree.Hash]struct{}{}}
}

// add takes an item.
func (p *packer) add(ctx context.Context, s *item) error {
	if s.out && !s.tells() && len(p.items) > 0 {
		p.items[len(p.items)-1].at = s.at
		return nil
	}
	if s.out && !s.tells() {
		p.block.cursor = s.at
		return nil
	}
	p.items = append(p.items, *s)
	for _, part := range s.parts {
		if _, ok := p.known[part.Hash]; !ok {
			p.known[part.Hash] = struct{}{}
			p.ask = append(p.ask, part.Hash)
		}
	}
	if len(p.items) >= p.most || len(p.ask) >= p.limits.ask {
		return p.pack(ctx)
	}
	return nil
}

// end sends what is left, also if that is only the cursor at the end of the stream.
func (p *packer) end(ctx context.Context, cursor tree.Cursor) error {
	if err := p.pack(ctx); err != nil {
		return err
	}
	if p.flushed == cursor && p.block.empty() {
		return nil
	}
	p.block.cursor, p.block.last = cursor, true
	return p.send(ctx, &p.block)
}

// flush sends what there is, before more of the stream comes.
func (p *packer) flush(ctx context.Context, cursor tree.Cursor) error {
	if err := p.pack(ctx); err != nil || p.block.empty() {
		return err
	}
	done := p.block
	done.cursor, p.flushed = cursor, cursor
	p.block, p.text = block{cursor: cursor}, 0
	return p.send(ctx, &done)
}

// empty reports whether there is nothing in a block.
func (b *block) empty() bool {
	return len(b.entries)+len(b.holds)+len(b.hides)+len(b.again)+len(b.stayed)+len(b.blocked) == 0
}

// pack asks about content, and puts the items into blocks.
func (p *packer) pack(ctx context.Context) error {
	for len(p.ask) > 0 {
		some := p.ask[:min(len(p.ask), p.limits.ask)]
		p.ask = p.ask[len(some):]
		lacking, err := p.lacking(ctx, some)
		if err != nil {
			return err
		}
		for _, h := range lacking {
			p.lacks[h] = struct{}{}
		}
	}
	for i := range p.items {
		if err := p.put(ctx, &p.items[i]); err != nil {
			return err
		}
	}
	clear(p.items)
	p.items, p.ask = p.items[:0], nil
	if len(p.known) > maxAsked {
		clear(p.known)
	}
	return nil
}

// put puts an item into the block, or into the next one when that is full.
func (p *packer) put(ctx context.Context, s *item) error {
	if s.out {
		p.block.note(s)
		if b := &p.block; len(b.hides)+len(b.again)+len(b.stayed)+len(b.unsent) >= p.most {
			done := *b
			*b = block{cursor: b.cursor}
			p.text = 0
			return p.send(ctx, &done)
		}
		return nil
	}
	first := len(p.block.objects)
	var bytes int64
	for _, part := range s.parts {
		if _, ok := p.lacks[part.Hash]; ok {
			delete(p.lacks, part.Hash)
			p.block.objects = append(p.block.objects, part.Hash)
			bytes += part.Size
		}
	}
	text := textOf(&s.entry)
	b := &p.block
	if n := len(b.entries); n > 0 && (n >= p.most || len(b.objects) > max(first, p.limits.objects) || b.bytes+bytes > BlockBytes || p.text+text > blockText) {
		done := *b
		done.objects = b.objects[:first:first]
		*b = block{cursor: b.cursor, objects: append([]tree.Hash(nil), b.objects[first:]...)}
		p.text = 0
		if err := p.send(ctx, &done); err != nil {
			return err
		}
	}
	if len(b.entries) == 0 && s.entry.Rev == p.rev {
		b.begun = p.rev
	}
	p.rev = s.entry.Rev
	b.entries = append(b.entries, s.entry)
	b.bytes += bytes
	p.text += text
	b.note(s)
	return nil
}

// note takes what an item says beside its entry.
func (b *block) note(s *item) {
	b.cursor = s.at
	if s.holds {
		if b.holds == nil {
			b.holds = map[string]*held{}
		}
		b.holds[s.path] = s.hold
	}
	if s.top != "" {
		if b.hides == nil {
			b.hides = map[string]bool{}
		}
		b.hides[s.top] = s.hidden
	}
	if s.again {
		b.again = append(b.again, s.entry)
	}
	switch {
	case s.blocked != "":
		b.unsent = append(b.unsent, *s.stays)
		if !slices.Contains(b.blocked, s.blocked) {
			b.blocked = append(b.blocked, s.blocked)
		}
	case s.stays != nil:
		b.stayed = append(b.stayed, *s.stays)
	}
}

// textOf is about how long an entry is on the wire.
func textOf(e *tree.Entry) int {
	const other, part = 160, 96
	return other + len(e.Path) + len(e.Target) + part*len(e.Parts)
}

// A block is what moves at once.
type block struct {
	entries  []tree.Entry
	begun    int64       // a revision of which blocks before have the first entries, 0 for none
	objects  []tree.Hash // that the other end lacks, and no block before it brings
	bytes    int64       // of those
	cursor   tree.Cursor // of the end that it comes from, once it is applied
	rev      int64       // up to which that end has listed its changes
	last     bool        // of the stream
	holds    map[string]*held
	vanished []string // local paths that were left out, and are to be sent again
	refused  []string // local paths that were left out, and wait
	// hides has paths that rules hide and that the remote has, or with false has no more. again
	// are directories and removals of the remote's that both sides have agreed on, when all is
	// compared anew since something else is ignored.
	hides map[string]bool
	again []tree.Entry
	// spare are the names that the remote leaves alone as it applies the block, nil for those of
	// the Config; renamed the directories that the block renames, and stayed what it does not
	// remove because of what rules hide.
	spare   []string
	renamed map[string]string
	stayed  []changes.Kept
	// blocked are paths at which nothing is sent because of what the remote has there, and unsent what
	// is here at them.
	blocked []string
	unsent  []changes.Kept
}

// pieces are what a block becomes whose content is sent, and that a remote refuses as a whole:
// blocks that no remote refuses for the number of their conflicts.
func (m *Mirror) pieces(b *block) []*block {
	var out []*block
	holds, cursor := maps.Clone(b.holds), m.s.peer.Push
	for rest := b.entries; len(rest) > 0; {
		some := rest[:min(len(rest), changes.MaxConflicts)]
		rest = rest[len(some):]
		piece := &block{entries: some, begun: b.begun, rev: b.rev, cursor: b.cursor, spare: b.spare, renamed: b.renamed}
		if len(out) > 0 {
			before := out[len(out)-1].entries
			piece.begun = before[len(before)-1].Rev
		}
		for i := range some {
			path, _ := m.roots.toLocal(some[i].Path)
			if h, ok := holds[path]; ok {
				piece.note(&item{holds: true, path: path, hold: h})
				delete(holds, path)
			}
			cursor = m.sendable(tree.AtPath(some[i].Rev, path), cursor)
			piece.cursor = cursor
		}
		out = append(out, piece)
	}
	// A cursor of a piece may be behind what is not sent.
	first, last := out[0], out[len(out)-1]
	for path, h := range holds {
		first.note(&item{holds: true, path: path, hold: h})
	}
	first.blocked, first.unsent, first.vanished, first.refused = b.blocked, b.unsent, b.vanished, b.refused
	last.cursor, last.stayed, last.hides, last.again = b.cursor, b.stayed, b.hides, b.again
	return out
}
