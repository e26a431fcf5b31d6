package httprequest

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// responseOf is the answer that resp makes, its body apart.
func responseOf(resp *http.Response, memory *lender) (*protocol.HTTPResponse, io.ReadCloser) {
	body := decode(resp, memory)
	return &protocol.HTTPResponse{Status: resp.StatusCode, Headers: headersOf(resp.Header), BodyBase64: []byte{}}, body
}

// headersOf lists h as the wire has it: names in lower case, sorted, repeats in
// order. Values that are not UTF-8 cannot be told and are dropped.
func headersOf(h http.Header) []protocol.HTTPHeader {
	out := make([]protocol.HTTPHeader, 0, len(h))
	for name, values := range h {
		for _, value := range values {
			if utf8.ValidString(value) {
				out = append(out, protocol.HTTPHeader{Name: strings.ToLower(name), Value: value})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b protocol.HTTPHeader) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// decode returns the body of resp, decompressed if it is gzip or zstd, and removes
// the headers that no longer hold then. Other encodings, several at once too, are
// left to the client.
func decode(resp *http.Response, memory *lender) io.ReadCloser {
	encodings := resp.Header.Values("Content-Encoding")
	if len(encodings) != 1 || resp.Body == http.NoBody {
		return resp.Body
	}
	d := &decoder{raw: resp.Body, memory: memory}
	switch strings.ToLower(strings.TrimSpace(encodings[0])) {
	case "gzip":
		d.open, d.needs = openGzip, gzipBytes
	case "zstd":
		d.open, d.needs = openZstd, 2*maxZstdWindow
	default:
		return resp.Body
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	return d
}

// gzipBytes is about what the decompressor of gzip takes.
const gzipBytes = 64 << 10

func openGzip(r io.Reader) (io.ReadCloser, error) {
	d, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// maxZstdWindow bounds the memory that a peer's zstd frame may claim. RFC 8878 asks
// decoders for 8 MiB.
const maxZstdWindow = 8 << 20

func openZstd(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// turns bounds how many goroutines decompress at a time: bodies that become much longer
// would otherwise leave no processor to other clients.
var turns = semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))

// decoder decompresses raw. It opens the decompressor at the first read, since that
// waits for the peer.
type decoder struct {
	raw    io.ReadCloser
	open   func(io.Reader) (io.ReadCloser, error)
	needs  int64 // memory
	memory *lender
	from   io.ReadCloser
	err    error
}

func (d *decoder) Read(p []byte) (int, error) {
	if d.from == nil && d.err == nil {
		d.err = d.memory.take(d.needs)
	}
	if d.err != nil {
		return 0, d.err
	}
	if err := turns.Acquire(d.memory.ctx, 1); err != nil {
		return 0, context.Cause(d.memory.ctx)
	}
	defer turns.Release(1)
	if d.from == nil {
		if d.from, d.err = d.open(bufio.NewReaderSize(waitReader{d.raw}, rawBytes)); d.err != nil {
			return 0, d.err
		}
	}
	return d.from.Read(p[:min(len(p), deltaBytes)])
}

// rawBytes are read of a compressed body at a time.
const rawBytes = 16 << 10

// waitReader reads for a goroutine that has a turn, which others get while it waits.
type waitReader struct{ io.Reader }

func (w waitReader) Read(p []byte) (int, error) {
	turns.Release(1)
	n, err := w.Reader.Read(p)
	_ = turns.Acquire(context.Background(), 1) // turns are short
	return n, err
}

func (d *decoder) Close() error {
	err := d.raw.Close()
	if d.from != nil {
		d.from.Close()
	}
	return err
}

// lender takes memory for one exchange from the connection's account, until release.
type lender struct {
	ctx     context.Context // of the exchange
	account *rpc.Account
	taken   int64
}

func (l *lender) take(n int64) error {
	if err := l.account.Take(l.ctx, n); err != nil {
		return err
	}
	l.taken += n
	return nil
}

func (l *lender) release() {
	l.account.Give(l.taken)
	l.taken = 0
}

// firstBytes is the room for a body whose length is not known. maxFirstBytes bounds it
// where a server says how long the body is, which need not be true.
const (
	firstBytes    = 32 << 10
	maxFirstBytes = 1 << 20
)

// readAll reads a body that is not streamed, size bytes long or -1. The request that ctx
// belongs to is charged for it and for its encoded form.
func readAll(ctx context.Context, body io.Reader, size int64) ([]byte, error) {
	if size < 0 {
		size = firstBytes
	}
	size = min(size, maxFirstBytes)
	out := make([]byte, 0, size+1) // one more, to meet the end without growing
	if err := rpc.Charge(ctx, chargeOf(cap(out))); err != nil {
		return nil, err
	}
	for {
		n, err := body.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case len(out) > protocol.MaxHTTPBodyBytes:
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "http/request response body exceeds the %d-byte limit; streamResponse has none", protocol.MaxHTTPBodyBytes)
		case errors.Is(err, io.EOF):
			return out, nil
		case rpc.IsBusy(err):
			return nil, err
		case err != nil:
			return nil, protocol.Errorf(protocol.CodeInternal, "failed to read http/request response body: %s", bodyError(err))
		}
		if len(out) == cap(out) {
			size := min(2*cap(out), protocol.MaxHTTPBodyBytes+1)
			if err := rpc.Charge(ctx, chargeOf(size)-chargeOf(cap(out))); err != nil {
				return nil, err
			}
			out = append(make([]byte, 0, size), out...)
		}
	}
}

// chargeOf is what a body of n bytes takes with its encoded form.
func chargeOf(n int) int64 { return int64(n) + int64(n)/3*4 + 4 }
