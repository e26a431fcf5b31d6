// Package lineconn makes an rpc.Connection of a pair of byte streams, such as stdin
// and stdout: one message a line.
//
// Lines may end with CR LF, blank lines are passed over, and what stands before the
// end of the stream counts without a line end too.
package lineconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

const (
	// readBuffer is the size of the reader's buffer; longer lines are collected.
	readBuffer = 64 << 10
	// keptLine is up to what size the memory of such a line is kept for the next one.
	keptLine = 1 << 20
)

// Conn is an rpc.Connection.
type Conn struct {
	r     *bufio.Reader
	w     io.Writer
	close func() error
	max   int

	account *rpc.Account // nil unless Meter was called
	start   sync.Once
	lines   chan line
	more    chan struct{} // asks for the next line, and gives the last one back
	asked   bool
	failed  error // what ended the reading

	writing chan struct{} // holds a token while somebody writes
	out     []byte

	closed   chan struct{}
	once     sync.Once
	closeErr error
}

type line struct {
	text []byte
	err  error
}

// New reads messages from r and writes them to w. Close calls closer, which may be
// nil; to unblock a read that waits, it must close r. A goroutine reads r until it
// ends, fails or Close has been called and the read under way returned.
func New(r io.Reader, w io.Writer, closer func() error) *Conn {
	if closer == nil {
		closer = func() error { return nil }
	}
	return &Conn{
		r: bufio.NewReaderSize(r, readBuffer), w: w, close: closer, max: protocol.MaxMessageBytes,
		lines: make(chan line), more: make(chan struct{}),
		writing: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// Meter implements rpc.Metered.
func (c *Conn) Meter(account *rpc.Account) { c.account = account }

// Read implements rpc.Connection. After its context ended, the line that it waited
// for is returned by the next Read.
func (c *Conn) Read(ctx context.Context) ([]byte, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	c.start.Do(func() { go c.pump() }) // ends as New says
	if !c.asked {
		select {
		case c.more <- struct{}{}:
			c.asked = true
		case <-c.closed:
			return nil, rpc.ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	select {
	case l := <-c.lines:
		c.asked = false
		c.failed = l.err
		return l.text, l.err
	case <-c.closed:
		return nil, rpc.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Conn) pump() {
	var long []byte
	defer func() {
		if cap(long) > keptLine {
			c.account.Give(int64(cap(long)))
		}
	}()
	for {
		select {
		case <-c.more:
		case <-c.closed:
			return
		}
		if cap(long) > keptLine {
			c.account.Give(int64(cap(long)))
			long = nil
		}
		text, err := c.next(&long)
		select {
		case c.lines <- line{text, err}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// next returns the next line that is not blank.
func (c *Conn) next(long *[]byte) ([]byte, error) {
	for {
		text, err := c.r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			*long = append((*long)[:0], text...)
			for errors.Is(err, bufio.ErrBufferFull) {
				if len(*long) > c.max {
					return nil, rpc.ErrTooLarge
				}
				if memErr := c.enlarge(long); memErr != nil {
					return nil, memErr
				}
				text, err = c.r.ReadSlice('\n')
				*long = append(*long, text...)
			}
			text = *long
		}
		text = bytes.TrimRight(text, "\r\n")
		switch {
		case len(text) > c.max:
			return nil, rpc.ErrTooLarge
		case len(bytes.TrimSpace(text)) > 0:
			return text, nil // an error comes again with the next read
		case err != nil:
			return nil, err
		}
	}
}

// enlarge makes room in long for what the reader's buffer holds. Above keptLine the
// account is charged for it.
func (c *Conn) enlarge(long *[]byte) error {
	had := cap(*long)
	if had-len(*long) >= readBuffer {
		return nil
	}
	size := max(2*had, 2*readBuffer)
	if size > keptLine {
		if err := c.account.TakeMore(context.Background(), int64(size)); err != nil {
			return err
		}
	}
	*long = append(make([]byte, 0, size), *long...)
	if had > keptLine {
		c.account.Give(int64(had))
	}
	return nil
}

// Write implements rpc.Connection. A message that contains a line end would be read
// as two; none that this project encodes does.
func (c *Conn) Write(ctx context.Context, msg []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case c.writing <- struct{}{}:
	case <-c.closed:
		return rpc.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.writing }()
	select {
	case <-c.closed:
		return rpc.ErrClosed
	default:
	}
	if cap(c.out) > 1<<20 {
		c.out = nil
	}
	c.out = append(append(c.out[:0], msg...), '\n')
	if _, err := c.w.Write(c.out); err != nil {
		return err
	}
	return nil
}

// Close implements rpc.Connection.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.closeErr = c.close()
	})
	return c.closeErr
}
