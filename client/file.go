package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// blockBytes is the size of the blocks of a file stream.
	blockBytes = protocol.MaxBlockBytes
	// maxBlocks bounds the blocks of one file that are under way.
	maxBlocks = 8
	// closeHandleWait bounds how long giving up a handle may take.
	closeHandleWait = 5 * time.Second
)

// handle is an open file at the server. It lives as long as its connection.
type handle struct {
	client *Client
	link   *link
	ctx    context.Context // the caller's, for as long as the handle is open
	id     string
	name   string
}

func (c *Client) openHandle(ctx context.Context, name, mode string, cond conditions) (*handle, error) {
	uri, err := c.uri(ctx, name)
	if err != nil {
		return nil, err
	}
	l, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	h := &handle{client: c, link: l, ctx: ctx, id: c.newID(), name: name}
	err = h.call(ctx, protocol.MethodFsOpen, &protocol.OpenParams{
		HandleID: h.id, Path: uri, Mode: mode, IfMatch: cond.ifMatch, IfNoneMatch: cond.ifNoneMatch, FileMode: cond.mode,
	}, nil)
	if err != nil {
		if ctx.Err() != nil {
			c.spawn(h.giveUp) // it may have been opened
		}
		return nil, pathError("open", name, err)
	}
	return h, nil
}

func (h *handle) call(ctx context.Context, method string, params, result any) error {
	return callError(method, h.link.peer.Call(ctx, method, params, result))
}

// giveUp closes the handle for a caller that does not wait.
func (h *handle) giveUp() {
	ctx, cancel := context.WithTimeout(h.client.life, closeHandleWait)
	defer cancel()
	_ = h.close(ctx, h.client.discards()) // it ends with the connection at the latest
}

func (h *handle) close(ctx context.Context, discard bool) error {
	params := &protocol.CloseHandleParams{HandleID: h.id}
	if discard {
		params.Discard = &discard
	}
	return h.call(ctx, protocol.MethodFsClose, params, nil)
}

// discards reports whether the server can drop what was written.
func (c *Client) discards() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.info.Capabilities[protocol.CapFsAtomicWrites]
}

// block is a read that is under way.
type block struct {
	offset int64
	done   chan struct{}
	data   []byte
	eof    bool
	err    error
}

// fetch begins to read a block.
func (h *handle) fetch(offset int64, length int) *block {
	b := &block{offset: offset, done: make(chan struct{})}
	if h.ctx.Err() != nil {
		b.err = context.Cause(h.ctx)
		close(b.done)
		return b
	}
	ok := h.client.spawn(func() { // ends with the call
		defer close(b.done)
		var result protocol.ReadBlockResult
		b.err = h.call(h.ctx, protocol.MethodFsReadBlock,
			&protocol.ReadBlockParams{HandleID: h.id, Offset: uint64(offset), Len: uint64(length)}, &result)
		b.data, b.eof = result.Chunk, result.EOF
	})
	if !ok {
		b.err = ErrClosed
		close(b.done)
	}
	return b
}

// File is a file open for reading. Read and Seek keep a position, and fetch several
// blocks ahead once reading goes on; ReadAt does not touch the position.
type File struct {
	*handle
	offset int64    // of what Read returns next
	ahead  []*block // under way or read, from offset's block on
	window int      // how many of them there should be
	closed bool
}

// Open opens a file for reading. ctx counts for as long as the file is open: when it
// ends, reads fail. A lost connection ends the file too.
func (c *Client) Open(ctx context.Context, name string) (*File, error) {
	h, err := c.openHandle(ctx, name, "", conditions{})
	if err != nil {
		return nil, err
	}
	return &File{handle: h, window: 1}, nil
}

// Read implements io.Reader.
func (f *File) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	data, err := f.peek()
	if err != nil {
		return 0, err
	}
	n := copy(b, data)
	f.offset += int64(n)
	return n, nil
}

// WriteTo implements io.WriterTo.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		data, err := f.peek()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(data)
		f.offset += int64(n)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// peek returns the bytes at the position that have been read already, at least one.
func (f *File) peek() ([]byte, error) {
	if f.closed {
		return nil, iofs.ErrClosed
	}
	for {
		if len(f.ahead) == 0 {
			f.ahead = append(f.ahead, f.fetch(f.offset, blockBytes))
		}
		head := f.ahead[0]
		<-head.done
		if head.err != nil {
			f.ahead = nil
			return nil, pathError("read", f.name, head.err)
		}
		if data := head.data[min(f.offset-head.offset, int64(len(head.data))):]; len(data) > 0 {
			return data, nil
		}
		if head.eof {
			f.ahead = nil // a later Read looks whether the file has grown
			return nil, io.EOF
		}
		f.advance()
	}
}

// advance drops the first block, which was full, and has more under way behind the
// rest: the further the reading goes, the more.
func (f *File) advance() {
	f.window = min(2*f.window, maxBlocks)
	last := f.ahead[len(f.ahead)-1].offset
	f.ahead = f.ahead[1:]
	for len(f.ahead) < f.window {
		last += blockBytes
		f.ahead = append(f.ahead, f.fetch(last, blockBytes))
	}
}

// Seek implements io.Seeker, save for io.SeekEnd: the size is Stat's.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.offset
	default:
		return 0, fmt.Errorf("seek %s: %w", f.name, errors.ErrUnsupported)
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek %s: negative position", f.name)
	}
	if offset != f.offset {
		f.offset, f.ahead, f.window = offset, nil, 1
	}
	return offset, nil
}

// ReadAt implements io.ReaderAt. It may run beside other calls.
func (f *File) ReadAt(b []byte, offset int64) (int, error) {
	if f.closed {
		return 0, iofs.ErrClosed
	}
	if offset < 0 {
		return 0, fmt.Errorf("read %s: negative offset", f.name)
	}
	total := 0
	var flight []*block
	next := 0 // of b, not yet asked for
	for total < len(b) {
		for len(flight) < maxBlocks && next < len(b) {
			n := min(len(b)-next, blockBytes)
			flight = append(flight, f.fetch(offset+int64(next), n))
			next += n
		}
		head := flight[0]
		flight = flight[1:]
		<-head.done
		if head.err != nil {
			return total, pathError("read", f.name, head.err)
		}
		total += copy(b[total:], head.data)
		if head.eof && total < len(b) {
			return total, io.EOF
		}
	}
	return total, nil
}

// Close ends the file.
func (f *File) Close() error {
	if f.closed {
		return iofs.ErrClosed
	}
	f.closed = true
	f.client.spawn(f.giveUp)
	return nil
}
