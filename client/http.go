package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// maxQueuedBody bounds the part of a response's body that waits to be read. While it
// is full, the connection is held up for at most StallTimeout; then the body fails.
const maxQueuedBody = 4 << 20

// HTTPRequest is a request that the server makes.
type HTTPRequest struct {
	Method string // "" means GET
	URL    string
	// Header lines are sent in order. One with a ValueEnvVar takes its value from the
	// server's environment, which needs the capability httpHeaderEnvVars.
	Header []protocol.HTTPHeader
	Body   []byte
	// Timeout covers the body too; 0 means none.
	Timeout time.Duration
	// NoRedirects returns a redirect instead of following it.
	NoRedirects bool
}

// HTTPResponse is what the server received.
type HTTPResponse struct {
	Status int
	Header []protocol.HTTPHeader // names in lower case
	// Body must be closed. It fails with ErrTransportClosed when the connection is
	// lost before its end.
	Body io.ReadCloser
}

// Do has the server make an HTTP request and returns once the header of the answer has
// arrived. An HTTP error status is not an error. ctx counts until the body is closed.
func (c *Client) Do(ctx context.Context, req *HTTPRequest) (*HTTPResponse, error) {
	params, err := c.httpParams(ctx, req)
	if err != nil {
		return nil, err
	}
	l, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	b := &body{client: c, link: l, ctx: ctx, id: params.RequestID}
	c.mu.Lock()
	c.bodies[b.id] = b
	c.mu.Unlock()
	var result protocol.HTTPResponse
	if err := l.peer.Call(ctx, protocol.MethodHTTPRequest, params, &result); err != nil {
		b.forget()
		return nil, callError(protocol.MethodHTTPRequest, err)
	}
	if !l.alive() { // detach may have passed before b was there
		b.fail(fmt.Errorf("%w: %w", ErrTransportClosed, io.ErrUnexpectedEOF))
	}
	return &HTTPResponse{Status: result.Status, Header: result.Headers, Body: b}, nil
}

func (c *Client) httpParams(ctx context.Context, req *HTTPRequest) (*protocol.HTTPRequestParams, error) {
	params := &protocol.HTTPRequestParams{
		Method: req.Method, URL: req.URL, RequestID: c.newID(), Headers: req.Header, StreamResponse: true,
	}
	if params.Method == "" {
		params.Method = "GET"
	}
	for _, line := range req.Header {
		if line.ValueEnvVar != nil {
			if err := c.need(ctx, protocol.CapHTTPHeaderEnvVars); err != nil {
				return nil, err
			}
		}
	}
	if req.Body != nil {
		data := protocol.Bytes(req.Body)
		params.BodyBase64 = &data
	}
	if req.Timeout > 0 {
		ms := uint64(max(req.Timeout.Milliseconds(), 1))
		params.TimeoutMs = &ms
	}
	if req.NoRedirects {
		params.RedirectPolicy = "stop"
	}
	return params, nil
}

// body is the body of a response, as it arrives.
type body struct {
	client *Client
	link   *link
	ctx    context.Context
	id     string

	mu      sync.Mutex
	lastSeq uint64
	chunks  [][]byte
	queued  int
	room    chan struct{} // non-nil while the connection waits
	changed chan struct{} // non-nil while Read waits
	err     error         // io.EOF at the end
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.chunks) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-b.ctx.Done():
			err = context.Cause(b.ctx)
		}
		b.mu.Lock()
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, b.chunks[0])
	b.chunks[0] = b.chunks[0][n:]
	if len(b.chunks[0]) == 0 {
		b.chunks = b.chunks[1:]
	}
	b.queued -= n
	if b.queued < maxQueuedBody {
		b.makeRoom()
	}
	return n, nil
}

// Close drops the rest of the body.
func (b *body) Close() error {
	b.fail(io.ErrClosedPipe)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunks, b.queued = nil, 0
	return nil
}

// handle takes a part from the reading goroutine.
func (b *body) handle(l *link, delta *protocol.HTTPBodyDeltaParams) {
	b.mu.Lock()
	room := b.take(delta)
	b.mu.Unlock()
	if room != nil && !l.stall(room) {
		b.fail(fmt.Errorf("the body was not read for %v", b.client.opts.StallTimeout))
	}
	if delta.Done {
		b.forget()
	}
}

func (b *body) take(delta *protocol.HTTPBodyDeltaParams) chan struct{} {
	if b.err != nil {
		return nil
	}
	b.lastSeq++
	switch {
	case delta.Seq != b.lastSeq:
		b.err = fmt.Errorf("part %d of the body is missing", b.lastSeq)
	case delta.Error != nil:
		b.err = errors.New(*delta.Error)
	case delta.Done:
		b.err = io.EOF
	}
	if len(delta.DeltaBase64) > 0 && (b.err == nil || errors.Is(b.err, io.EOF)) {
		b.chunks = append(b.chunks, delta.DeltaBase64)
		b.queued += len(delta.DeltaBase64)
	}
	b.wake()
	if b.err != nil || b.queued < maxQueuedBody {
		return nil
	}
	b.room = make(chan struct{})
	return b.room
}

func (b *body) fail(err error) {
	b.forget()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.makeRoom()
	b.wake()
}

func (b *body) forget() {
	b.client.mu.Lock()
	defer b.client.mu.Unlock()
	delete(b.client.bodies, b.id)
}

func (b *body) makeRoom() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

func (b *body) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}
