package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/segmentio/asm/ascii"
)

// Limits bound a message; zero fields mean no limit.
type Limits struct {
	Depth  int // arrays and objects within each other
	Values int // scalars, arrays and objects together
}

// SyntaxError is a fault of a message, at a byte offset.
type SyntaxError struct {
	Reason string
	Offset int
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// scanner checks one JSON text in a single pass.
type scanner struct {
	src    []byte
	pos    int
	depth  int
	values int
	limits Limits
	// onMember is called for each member of the outermost object.
	onMember func(key, value []byte)
	keys     keySet
}

func (s *scanner) fail(reason string) error {
	return &SyntaxError{Reason: reason, Offset: s.pos}
}

// document checks that src is one value and nothing else.
func (s *scanner) document() error {
	if err := s.value(); err != nil {
		return err
	}
	s.space()
	if s.pos != len(s.src) {
		return s.fail("trailing characters")
	}
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) value() error {
	s.space()
	if s.pos == len(s.src) {
		return s.fail("unexpected end of message")
	}
	s.values++
	if s.limits.Values > 0 && s.values > s.limits.Values {
		return s.fail(fmt.Sprintf("JSON-RPC message exceeds the limit of %d JSON values", s.limits.Values))
	}
	switch c := s.src[s.pos]; {
	case c == '{':
		return s.nested(s.object)
	case c == '[':
		return s.nested(s.array)
	case c == '"':
		return s.string()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.fail("expected value")
	}
}

func (s *scanner) nested(body func() error) error {
	s.depth++
	if s.limits.Depth > 0 && s.depth > s.limits.Depth {
		return s.fail("recursion limit exceeded")
	}
	s.pos++
	err := body()
	s.depth--
	return err
}

func (s *scanner) array() error {
	s.space()
	if s.take(']') {
		return nil
	}
	for {
		if err := s.value(); err != nil {
			return err
		}
		s.space()
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.fail("expected `,` or `]`")
		}
	}
}

func (s *scanner) object() error {
	outer := s.depth == 1 && s.onMember != nil
	mark := s.keys.open()
	defer s.keys.close(mark)
	s.space()
	if s.take('}') {
		return nil
	}
	for {
		s.space()
		if s.pos == len(s.src) || s.src[s.pos] != '"' {
			return s.fail("key must be a string")
		}
		start := s.pos
		if err := s.string(); err != nil {
			return err
		}
		key := unquote(s.src[start:s.pos])
		if !s.keys.add(mark, key) {
			s.pos = start
			return s.fail(fmt.Sprintf("duplicate JSON object key `%s`", key))
		}
		s.space()
		if !s.take(':') {
			return s.fail("expected `:`")
		}
		s.space()
		valueStart := s.pos
		if err := s.value(); err != nil {
			return err
		}
		if outer {
			s.onMember(key, s.src[valueStart:s.pos])
		}
		s.space()
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.fail("expected `,` or `}`")
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.pos < len(s.src) && s.src[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) literal(word string) error {
	if len(s.src)-s.pos < len(word) || string(s.src[s.pos:s.pos+len(word)]) != word {
		return s.fail("expected value")
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.src) && '0' <= s.src[s.pos] && s.src[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) number() error {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return s.fail("invalid number")
	}
	if s.take('.') && !s.digits() {
		return s.fail("invalid number")
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return s.fail("invalid number")
		}
	}
	return nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has a high bit set for each byte of x that is a quote, a backslash, a
// control character or not ASCII. A borrow may set one too many above the first,
// so only its being zero, or its lowest bit, may be relied on.
func special(x uint64) uint64 {
	quote := x ^ (ones * '"')
	slash := x ^ (ones * '\\')
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x - ones*0x20) | x) & highs
}

// longString is the length from which it pays to look for a plain string first, and
// scanBytes is how much of one is looked at at a time: it stays in the fastest cache.
const (
	longString = 64
	scanBytes  = 8 << 10
)

// plainString moves past the string at pos if it is long printable ASCII without
// escapes, as base64 is: three passes by vector instructions are faster than one
// without.
func (s *scanner) plainString() bool {
	body := s.src[s.pos+1:]
	for at := 0; at < len(body); at += scanBytes {
		part := body[at:min(at+scanBytes, len(body))]
		n := bytes.IndexByte(part, '"')
		ends := n >= 0
		if ends {
			part = part[:n]
		}
		if ends && at+n < longString || bytes.IndexByte(part, '\\') >= 0 || !ascii.ValidPrint(part) {
			return false
		}
		if ends {
			s.pos += at + n + 2
			return true
		}
	}
	return false
}

// string checks the string at pos and moves past it.
func (s *scanner) string() error {
	if s.plainString() {
		return nil
	}
	src, i := s.src, s.pos+1
	plainUTF8 := true
	for {
		for i+8 <= len(src) && special(binary.LittleEndian.Uint64(src[i:])) == 0 {
			i += 8
		}
		if i == len(src) {
			s.pos = i
			return s.fail("unexpected end of string")
		}
		switch c := src[i]; {
		case c == '"':
			if !plainUTF8 && !utf8.Valid(src[s.pos:i]) {
				return s.fail("invalid UTF-8 in string")
			}
			s.pos = i + 1
			return nil
		case c == '\\':
			n, err := escapeLen(src[i:])
			if err != nil {
				s.pos = i
				return s.fail(err.Error())
			}
			i += n
		case c < 0x20:
			s.pos = i
			return s.fail("control character in string")
		default:
			plainUTF8 = plainUTF8 && c < utf8.RuneSelf
			i++
		}
	}
}

var (
	errEscape    = errors.New("invalid escape")
	errSurrogate = errors.New("lone surrogate in hex escape")
)

// escapeLen returns the length of the escape that src begins with; a pair of
// surrogates counts as one.
func escapeLen(src []byte) (int, error) {
	if len(src) < 2 {
		return 0, errEscape
	}
	switch src[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, errEscape
	}
	r, ok := hex4(src[2:])
	switch {
	case !ok:
		return 0, errEscape
	case r < 0xd800 || r > 0xdfff:
		return 6, nil
	case r > 0xdbff || len(src) < 8 || src[6] != '\\' || src[7] != 'u':
		return 0, errSurrogate
	}
	if low, ok := hex4(src[8:]); !ok || low < 0xdc00 || low > 0xdfff {
		return 0, errSurrogate
	}
	return 12, nil
}

func hex4(src []byte) (rune, bool) {
	if len(src) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range src[:4] {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c && c <= 'f':
			r |= rune(c-'a') + 10
		case 'A' <= c && c <= 'F':
			r |= rune(c-'A') + 10
		default:
			return 0, false
		}
	}
	return r, true
}
