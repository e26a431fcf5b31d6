package capnweb

import (
	"bytes"
	"slices"

	"github.com/segmentio/asm/base64"
)

// appendBase64 appends data in standard base64 without padding, as peers send it.
func appendBase64(dst, data []byte) []byte {
	n := base64.RawStdEncoding.EncodedLen(len(data))
	dst = slices.Grow(dst, n)
	start := len(dst)
	dst = dst[:start+n]
	base64.RawStdEncoding.Encode(dst[start:], data)
	return dst
}

// decodeBase64 decodes standard base64 with or without padding. Line breaks are no part
// of it, which the library would pass over.
func decodeBase64(text []byte) ([]byte, bool) {
	body := bytes.TrimRight(text, "=")
	if pad := len(text) - len(body); pad > 2 || pad > 0 && len(text)%4 != 0 || len(body)%4 == 1 {
		return nil, false
	}
	if bytes.IndexByte(body, '\n') >= 0 || bytes.IndexByte(body, '\r') >= 0 {
		return nil, false
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(body)))
	n, err := base64.RawStdEncoding.Decode(out, body)
	if err != nil || n != len(out) {
		return nil, false
	}
	return out, true
}
