package wire

import (
	"encoding/base64"
	"fmt"

	fast "github.com/segmentio/asm/base64"
)

// Base64Error is a fault of binary data in a message: standard base64, padded,
// without line breaks, is expected.
type Base64Error struct {
	Reason string
}

func (e *Base64Error) Error() string { return e.Reason }

// DecodeBase64 decodes text into the memory of dst, if that has room, or else into a slice
// of its own. The result is never nil.
func DecodeBase64(dst, text []byte) ([]byte, error) {
	if len(text)%4 != 0 {
		return nil, base64Fault(text)
	}
	size := base64.StdEncoding.DecodedLen(len(text))
	if dst == nil || cap(dst) < size {
		dst = make([]byte, size)
	}
	out := dst[:size]
	if size == 0 {
		return out, nil
	}
	n, err := fast.StdEncoding.Decode(out, text)
	// The length tells of ignored line breaks, the last group of stray bits.
	if err != nil || !wholeBase64(text, n) {
		return nil, base64Fault(text)
	}
	return out[:n], nil
}

// wholeBase64 reports whether all of text counted in n decoded bytes and its last
// group has no bits beyond them.
func wholeBase64(text []byte, n int) bool {
	pad := 0
	for pad < 2 && text[len(text)-1-pad] == '=' {
		pad++
	}
	if n != len(text)/4*3-pad {
		return false
	}
	var last [3]byte
	_, err := base64.StdEncoding.Strict().Decode(last[:], text[len(text)-4:])
	return err == nil
}

// base64Fault says what is wrong with text, in the words of the original's decoder.
func base64Fault(text []byte) error {
	body := text
	for len(body) > 0 && body[len(body)-1] == '=' {
		body = body[:len(body)-1]
	}
	for i, c := range body {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
		default:
			return &Base64Error{fmt.Sprintf("Invalid symbol %d, offset %d.", c, i)}
		}
	}
	if len(text)%4 == 0 && len(text)-len(body) <= 2 && len(body)%4 != 1 {
		return &Base64Error{fmt.Sprintf("Invalid last symbol %d, offset %d.", body[len(body)-1], len(body)-1)}
	}
	return &Base64Error{"Invalid padding"}
}

// AppendBase64 appends data as a JSON string of base64.
func AppendBase64(dst, data []byte) []byte {
	n := base64.StdEncoding.EncodedLen(len(data))
	dst = grow(dst, n+2)
	dst = append(dst, '"')
	start := len(dst)
	dst = dst[:start+n]
	fast.StdEncoding.Encode(dst[start:], data)
	return append(dst, '"')
}

// grow makes room for n more bytes.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	grown := make([]byte, len(dst), max(len(dst)+n+64, 2*cap(dst)))
	copy(grown, dst)
	return grown
}
