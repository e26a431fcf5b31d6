package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

// FileWriter is a file that is being replaced or created. On wsd nobody sees the new
// content before Close has returned nil, and all of it then; on the original server
// the file is truncated at once and grows.
type FileWriter struct {
	*handle
	offset int64  // of what Write appends next
	buf    []byte // written but not yet sent; it ends at offset
	places chan struct{}
	closed bool

	mu      sync.Mutex
	failure error // of the first block that failed
	flight  sync.WaitGroup
}

// Create begins to replace a file, or to create it. ctx counts for as long as the
// FileWriter is open: when it ends, writes fail. A lost connection ends it too, and
// on wsd leaves the old file. The conditions of opts are checked by Close. It needs the
// capability fileWriteStreaming.
func (c *Client) Create(ctx context.Context, name string, opts *WriteOptions) (*FileWriter, error) {
	if err := c.need(ctx, protocol.CapFileWriteStreaming); err != nil {
		return nil, err
	}
	if opts != nil && opts.IncludeHash {
		return nil, fmt.Errorf("create %s: the hash is not returned; use StatHash", name)
	}
	cond, err := c.conditions(ctx, opts)
	if err != nil {
		return nil, err
	}
	h, err := c.openHandle(ctx, name, protocol.OpenReplace, cond)
	if err != nil {
		return nil, err
	}
	return &FileWriter{handle: h, places: make(chan struct{}, maxBlocks)}, nil
}

// Write appends b. It returns before b is written: a failure shows at a later Write or
// at Close.
func (f *FileWriter) Write(b []byte) (int, error) {
	if err := f.usable(); err != nil {
		return 0, err
	}
	total := 0
	for len(b) > 0 {
		if f.buf == nil {
			f.buf = make([]byte, 0, blockBytes)
		}
		n := min(len(b), cap(f.buf)-len(f.buf))
		f.buf = append(f.buf, b[:n]...)
		f.offset += int64(n)
		b, total = b[n:], total+n
		if len(f.buf) == cap(f.buf) {
			if err := f.send(); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// ReadFrom implements io.ReaderFrom.
func (f *FileWriter) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		if err := f.usable(); err != nil {
			return total, err
		}
		if f.buf == nil {
			f.buf = make([]byte, 0, blockBytes)
		}
		n, err := r.Read(f.buf[len(f.buf):cap(f.buf)])
		f.buf = f.buf[:len(f.buf)+n]
		f.offset += int64(n)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if len(f.buf) == cap(f.buf) {
			if err := f.send(); err != nil {
				return total, err
			}
		}
	}
}

// WriteAt writes b at offset, beside what Write appends. What lies between is zero.
func (f *FileWriter) WriteAt(b []byte, offset int64) (int, error) {
	if err := f.usable(); err != nil {
		return 0, err
	}
	if offset < 0 {
		return 0, fmt.Errorf("write %s: negative offset", f.name)
	}
	if err := f.send(); err != nil { // so that the order of overlapping writes is kept
		return 0, err
	}
	f.flight.Wait()
	total := 0
	for len(b) > 0 {
		n := min(len(b), blockBytes)
		if err := f.put(append([]byte(nil), b[:n]...), offset); err != nil {
			return total, err
		}
		b, offset, total = b[n:], offset+int64(n), total+n
	}
	f.flight.Wait()
	return total, f.usable()
}

func (f *FileWriter) usable() error {
	if f.closed {
		return iofs.ErrClosed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// send sends what Write has collected.
func (f *FileWriter) send() error {
	if len(f.buf) == 0 {
		return nil
	}
	data := f.buf
	f.buf = nil
	return f.put(data, f.offset-int64(len(data)))
}

// put begins to write a block, once fewer than maxBlocks are under way.
func (f *FileWriter) put(data []byte, offset int64) error {
	if f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	select {
	case f.places <- struct{}{}:
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
	f.flight.Add(1)
	ok := f.client.spawn(func() { // ends with the call
		defer f.flight.Done()
		defer func() { <-f.places }()
		f.fail(f.call(f.ctx, protocol.MethodFsWriteBlock,
			&protocol.WriteBlockParams{HandleID: f.id, Offset: uint64(offset), Chunk: data}, nil))
	})
	if !ok {
		f.flight.Done()
		<-f.places
		f.fail(ErrClosed)
	}
	return f.usable()
}

func (f *FileWriter) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil {
		f.failure = pathError("write", f.name, err)
	}
}

// Close puts the new content in place. After a failed write, after the end of the context,
// and when it fails itself, wsd leaves the old file as it was. Only if the context ends
// while it waits for the server may the content be in place all the same.
func (f *FileWriter) Close() error {
	if f.closed {
		return iofs.ErrClosed
	}
	err := f.send()
	f.flight.Wait()
	if err == nil {
		err = f.usable()
	}
	f.closed = true
	if err == nil && f.ctx.Err() != nil {
		err = pathError("close", f.name, context.Cause(f.ctx))
	}
	if err != nil {
		return errors.Join(err, f.drop())
	}
	err = f.close(f.ctx, false)
	if err != nil && f.ctx.Err() != nil {
		f.client.spawn(f.giveUp) // it may not have been sent
	}
	return pathError("close", f.name, err)
}

// Discard drops what was written. After Close it does nothing. On a server that does
// not announce fsAtomicWrites, it leaves the file as far as it was written.
func (f *FileWriter) Discard() error {
	if f.closed {
		return nil
	}
	f.closed = true
	f.flight.Wait()
	return f.drop()
}

func (f *FileWriter) drop() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), closeHandleWait)
	defer cancel()
	err := f.close(ctx, f.client.discards())
	if errors.Is(err, ErrTransportClosed) {
		return nil // it ended with the connection
	}
	return pathError("discard", f.name, err)
}
