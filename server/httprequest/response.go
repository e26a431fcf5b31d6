package httprequest

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/wsd-dev/wsd/protocol"
)

// responseOf is the answer that resp makes, its body apart.
func responseOf(resp *http.Response) (*protocol.HTTPResponse, io.ReadCloser) {
	body := decode(resp)
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
func decode(resp *http.Response) io.ReadCloser {
	encodings := resp.Header.Values("Content-Encoding")
	if len(encodings) != 1 || resp.Body == http.NoBody {
		return resp.Body
	}
	var open func(io.Reader) (io.ReadCloser, error)
	switch strings.ToLower(strings.TrimSpace(encodings[0])) {
	case "gzip":
		open = openGzip
	case "zstd":
		open = openZstd
	default:
		return resp.Body
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	return &decoder{raw: resp.Body, open: open}
}

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

// decoder decompresses raw. It opens the decompressor at the first read, since that
// waits for the peer.
type decoder struct {
	raw  io.ReadCloser
	open func(io.Reader) (io.ReadCloser, error)
	from io.ReadCloser
	err  error
}

func (d *decoder) Read(p []byte) (int, error) {
	if d.from == nil && d.err == nil {
		d.from, d.err = d.open(d.raw)
	}
	if d.err != nil {
		return 0, d.err
	}
	return d.from.Read(p)
}

func (d *decoder) Close() error {
	err := d.raw.Close()
	if d.from != nil {
		d.from.Close()
	}
	return err
}

// readAll reads a body that is not streamed.
func readAll(body io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(body, protocol.MaxHTTPBodyBytes+1))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "failed to read http/request response body: %s", bodyError(err))
	}
	if len(out) > protocol.MaxHTTPBodyBytes {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "http/request response body exceeds the %d-byte limit; streamResponse has none", protocol.MaxHTTPBodyBytes)
	}
	return out, nil
}
