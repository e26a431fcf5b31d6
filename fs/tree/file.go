package tree

import (
	"context"
	"errors"
	"io"
	"slices"
)

// A Reader reads one version of a file: the one it was opened on, whatever becomes of
// the file. It holds no transaction. It is for one goroutine. Close it, so that its
// content can be collected one day.
type Reader struct {
	// Info is of the file as it was opened.
	Info FileInfo

	tree   *Tree
	parts  []Part
	closed bool
	index  int // of the part in buf, -1 for none
	buf    []byte
}

// Open opens a file for reading; links are followed. A stub is ErrStub.
func (t *Tree) Open(ctx context.Context, path string) (*Reader, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, at("open", path, err)
	}
	r := &Reader{tree: t, index: -1}
	find := func(tx Tx, ns *Namespace) error {
		s, err := newResolver(tx, ns).existing(path, true)
		if err != nil {
			return err
		}
		if s.node.Kind != KindFile {
			return ErrIsDirectory
		}
		if s.node.Stub {
			return ErrStub
		}
		if r.parts, err = tx.Parts(s.node.Ino); err != nil {
			return err
		}
		r.Info = s.info()
		t.forest.pin(r.parts)
		return nil
	}
	// A collection that decided before the chunks were pinned might delete them behind
	// the view's back. One that runs beside it shows in the counter; the second look is
	// an update, beside which none runs.
	before := t.forest.sweeps.Load()
	err = t.view(ctx, find)
	if err == nil && (before%2 != 0 || t.forest.sweeps.Load() != before) {
		t.forest.unpin(r.parts)
		_, err = t.Update(ctx, func(e *Edit) error { return find(e.tx, &e.ns) })
	}
	if err != nil {
		return nil, at("open", path, err)
	}
	return r, nil
}

// ErrStub is returned for a file that is listed but whose bytes are not here.
var ErrStub = errors.New("the content is not here")

// Parts are the content.
func (r *Reader) Parts() []Part { return slices.Clone(r.parts) }

// ReadAt reads len(p) bytes from offset on, or fewer with io.EOF when the file ends.
func (r *Reader) ReadAt(ctx context.Context, p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, at("read", r.Info.Path, ErrInvalid)
	}
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		if at >= r.Info.Size {
			return n, io.EOF
		}
		chunk, err := r.chunk(ctx, int(at/ChunkSize))
		if err != nil {
			return n, err
		}
		n += copy(p[n:], chunk[at%ChunkSize:])
	}
	return n, nil
}

// WriteTo writes the whole file to w, a chunk at a time.
func (r *Reader) WriteTo(ctx context.Context, w io.Writer) (int64, error) {
	var done int64
	for i := range r.parts {
		chunk, err := r.chunk(ctx, i)
		if err != nil {
			return done, err
		}
		n, err := w.Write(chunk)
		if done += int64(n); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (r *Reader) chunk(ctx context.Context, i int) ([]byte, error) {
	if r.closed {
		return nil, at("read", r.Info.Path, ErrClosed)
	}
	if i != r.index {
		r.index = -1
		buf, err := r.tree.forest.Chunk(ctx, r.parts[i].Hash, r.buf[:0])
		r.buf = buf
		if errors.Is(err, ErrUnknownHash) {
			// What a file consists of is never collected.
			err = errors.Join(ErrDamaged, err)
		}
		if err != nil {
			return nil, at("read", r.Info.Path, err)
		}
		r.index = i
	}
	return r.buf, nil
}

// ErrClosed is returned by a Reader after Close.
var ErrClosed = errors.New("closed")

// Close lets go of the content.
func (r *Reader) Close() error {
	if !r.closed {
		r.closed, r.buf = true, nil
		r.tree.forest.unpin(r.parts)
	}
	return nil
}

// ReadFile is a whole file, of at most limit bytes, else ErrTooLarge.
func (t *Tree) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	r, err := t.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Info.Size > limit {
		return nil, at("read", path, ErrTooLarge)
	}
	out := make([]byte, r.Info.Size)
	_, err = r.ReadAt(ctx, out, 0)
	return out, err
}

// WriteFile reads r to its end and then makes it the content of a file, as Edit.PutFile
// does; f.Parts is not looked at. Nobody sees a part of it. It returns the tree's revision.
func (t *Tree) WriteFile(ctx context.Context, path string, r io.Reader, f File) (int64, error) {
	parts, rest, err := t.forest.stage(ctx, r)
	if err != nil {
		return 0, at("write", path, err)
	}
	f.Parts = parts
	return t.Update(ctx, func(e *Edit) error {
		// The end of the content, which is all of it for most files, comes with the file.
		if _, err := t.forest.pack(e.tx, rest, e.now.UnixMilli()); err != nil {
			return err
		}
		return e.PutFile(path, f)
	})
}
