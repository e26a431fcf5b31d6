package changes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/wsd-dev/wsd/fs/changes/pack"
	"github.com/wsd-dev/wsd/fs/tree"
)

// FetchChangePack decides what is in the pack, which is all that a peer wants to know
// that only asks how much there is; objects are read, and the pack is made, as its pieces
// are asked for. Until the stream is closed the objects stay, and the entries are spooled.
func (s *Server) FetchChangePack(ctx context.Context, q PackQuery) (*Pack, error) {
	return s.fetchPack(ctx, q, false)
}

// fetchPack is FetchChangePack, for a reader of PlainNames too.
func (s *Server) fetchPack(ctx context.Context, q PackQuery, plain bool) (*Pack, error) {
	if len(q.Generation) > pack.MaxGeneration {
		return nil, protocolErrorf("a generation of %d bytes", len(q.Generation))
	}
	open, applied, err := s.changes(ctx, q.FetchQuery, plain)
	if err != nil {
		return nil, err
	}
	p := &packer{server: s, spool: s.packs.open(), sent: map[tree.Hash]bool{}, unpin: func() {}}
	drained, err := p.choose(ctx, open, q)
	if err == nil {
		err = p.pin(ctx)
	}
	if err != nil {
		p.close(err)
		return nil, err
	}
	cursor := open.Current
	if !drained {
		cursor = p.last
	}
	p.footer = pack.Footer{After: CursorToWire(q.After), BlockCursor: CursorToWire(cursor), Target: CursorToWire(open.Current)}
	p.out = pack.NewEncoder(&p.buf, q.Generation)
	return &Pack{
		Cursor: cursor, Drained: drained, Entries: p.spool.count, AppliedPush: applied,
		Pieces: FromFunc(p.piece, p.close),
	}, nil
}

// A packer makes a pack.
type packer struct {
	server *Server
	spool  *spool
	last   tree.Cursor
	unpin  func()
	footer pack.Footer

	buf   bytes.Buffer
	out   *pack.Encoder
	sent  map[tree.Hash]bool // the objects of the pack, true for those that were written
	next  func() (tree.Entry, error, bool)
	stop  func()
	entry tree.Entry // whose parts are being written
	part  int        // the next of them
	going bool       // there is an entry
	done  bool
}

// choose spools entries as long as they fit, one at least. It reports whether that was all.
func (p *packer) choose(ctx context.Context, open *listing, q PackQuery) (bool, error) {
	most := min(max(q.MaxEntries, 1), MaxPackEntries)
	var size int64
	for {
		list, err := open.Next(ctx, fetchPage)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for i := range list {
			e := &list[i]
			more := p.news(e)
			if p.spool.count > 0 && (p.spool.count == most || size+more > q.MaxBytes) {
				return false, nil
			}
			for _, part := range e.Parts {
				p.sent[part.Hash] = false
			}
			size += more
			if err := p.spool.add(e); err != nil {
				return false, err
			}
			p.last = After(e)
		}
	}
}

// news is how many bytes of objects an entry adds.
func (p *packer) news(e *tree.Entry) int64 {
	var size int64
	var own map[tree.Hash]bool
	for i, part := range e.Parts {
		if _, is := p.sent[part.Hash]; is || own[part.Hash] {
			continue
		}
		size += part.Size
		if i+1 < len(e.Parts) {
			if own == nil {
				own = map[tree.Hash]bool{}
			}
			own[part.Hash] = true
		}
	}
	return size
}

// pin keeps the objects from being collected.
func (p *packer) pin(ctx context.Context) error {
	hashes := make([]tree.Hash, 0, len(p.sent))
	for h := range p.sent {
		hashes = append(hashes, h)
	}
	unpin, err := p.server.forest.Pin(ctx, hashes)
	if err == nil {
		p.unpin = unpin
	}
	return err
}

func (p *packer) close(error) {
	if p.stop != nil {
		p.stop()
	}
	p.unpin()
	p.spool.close()
	p.buf, p.sent, p.next = bytes.Buffer{}, nil, nil
}

// piece makes records until there is one.
func (p *packer) piece(ctx context.Context) ([]byte, error) {
	for !p.done && p.buf.Len() < pack.MaxPiece {
		if err := p.step(ctx); err != nil {
			return nil, err
		}
	}
	if p.buf.Len() == 0 {
		return nil, io.EOF
	}
	return bytes.Clone(p.buf.Next(pack.MaxPiece)), nil
}

// step writes one record.
func (p *packer) step(ctx context.Context) error {
	if p.next == nil {
		p.next, p.stop = iter.Pull2(p.spool.all())
	}
	if !p.going {
		e, err, ok := p.next()
		if err != nil {
			return err
		}
		if !ok {
			p.done = true
			return p.out.Close(p.footer)
		}
		p.entry, p.part, p.going = e, 0, true
	}
	for p.part < len(p.entry.Parts) {
		h := p.entry.Parts[p.part].Hash
		if p.sent[h] {
			p.part++
			continue
		}
		data, err := p.server.forest.Chunk(ctx, h, nil)
		if err != nil {
			return err
		}
		p.part++
		p.sent[h] = true
		return p.out.Object(tree.Data{Hash: h, Bytes: data})
	}
	p.going = false
	entry := EntryToWire(&p.entry)
	entry.Nanos, entry.RenamedTo = 0, ""
	return p.out.Entry(entry)
}

// ApplyChangePack keeps the objects as they come. The entries are applied, as a push of
// the peer up to the footer's cursor, when all of the pack has been found to be right.
func (s *Server) ApplyChangePack(ctx context.Context, generation string, pieces Stream[[]byte]) (PackResult, error) {
	return s.applyPack(ctx, generation, pieces, false)
}

// applyPack is ApplyChangePack, for one of PlainNames too.
func (s *Server) applyPack(ctx context.Context, generation string, pieces Stream[[]byte], plain bool) (PackResult, error) {
	spool := s.spools.open()
	defer spool.close()
	u := unpacker{to: spool, plain: plain, in: pack.NewDecoder(&pieceReader{ctx: ctx, pieces: pieces}, generation), objects: s.forest.Stager()}
	cur, err := u.unpack(ctx)
	err = errors.Join(err, u.objects.Close())
	pieces.Close(err)
	if err != nil {
		return PackResult{}, err
	}
	var done applied
	if cur.Rev > 0 {
		if done, err = s.apply(ctx, cur, &PushInput{}, plain, spool); err != nil {
			return PackResult{}, err
		}
	}
	p, err := s.tree.Peer(ctx, s.peer)
	return PackResult{AppliedPushCursor: p.Fetch, Applied: done.Changed, Entries: spool.count}, err
}

// An unpacker takes a pack apart.
type unpacker struct {
	to      *spool
	in      *pack.Decoder
	objects *tree.Stager
	batch   []tree.Data
	size    int
	plain   bool // the sender is one of PlainNames
}

// unpack keeps objects and spools entries. It returns the footer's cursor.
func (u *unpacker) unpack(ctx context.Context) (tree.Cursor, error) {
	for {
		rec, err := u.in.Next()
		if errors.Is(err, pack.ErrInvalid) {
			err = packError(err)
		}
		if err != nil {
			return tree.Cursor{}, err
		}
		switch {
		case rec.Object != nil:
			if err = rec.Object.Check(); err != nil { // one that is none makes the pack none
				return tree.Cursor{}, packError(err)
			}
			if len(u.batch) == batchObjects || u.size >= batchBytes {
				err = u.keep(ctx)
			}
			u.batch = append(u.batch, *rec.Object)
			u.size += len(rec.Object.Bytes)
		case rec.Entry != nil:
			if n := len(u.batch); n > 0 {
				u.batch[n-1].Last = true // the entry comes behind its content
			}
			var e tree.Entry
			if e, err = EntryFromWire(rec.Entry); u.plain {
				encodeEntry(&e)
			} else if err == nil {
				err = checkForms(&e)
			}
			if err == nil {
				err = u.to.add(&e)
			}
		default:
			return u.end(ctx, rec.Footer)
		}
		if err != nil {
			return tree.Cursor{}, err
		}
	}
}

// keep keeps objects.
func (u *unpacker) keep(ctx context.Context) error {
	if len(u.batch) == 0 {
		return nil
	}
	var err error
	for _, d := range u.batch {
		if err == nil {
			err = u.objects.Put(ctx, d)
		}
	}
	if err == nil {
		err = u.objects.Flush(ctx)
	}
	u.batch, u.size = u.batch[:0], 0
	return err
}

func (u *unpacker) end(ctx context.Context, f *pack.Footer) (tree.Cursor, error) {
	cur, err := CursorFromWire(f.BlockCursor)
	if err == nil && cur.Rev == 0 && u.to.count > 0 {
		err = errNoCursor
	}
	if err != nil {
		return cur, packError(err)
	}
	return cur, u.keep(ctx)
}

var errNoCursor = errors.New("a pack of entries without a cursor")

func packError(err error) error { return &Error{Code: CodePack, Err: err} }

// A pieceReader reads the bytes of pieces. It is used within one call.
type pieceReader struct {
	ctx    context.Context //nolint:containedctx // of the call that it is made for
	pieces Stream[[]byte]
	rest   []byte
}

func (r *pieceReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		piece, err := r.pieces.Next(r.ctx)
		if err != nil {
			return 0, err
		}
		r.rest = piece
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
