package capnweb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// A syntaxError is a message that is no JSON, or more of it than the limits allow.
type syntaxError struct {
	what string
	pos  int
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.pos) }

// check reports whether text is one JSON value within the limits. What passes is read by
// a cursor, which trusts it.
func check(text []byte) error {
	c := checker{text: text}
	if err := c.value(0); err != nil {
		return err
	}
	if c.space(); c.pos != len(text) {
		return c.fault("unexpected text after the value")
	}
	return nil
}

type checker struct {
	text   []byte
	pos    int
	values int
}

func (c *checker) fault(what string) error { return &syntaxError{what, c.pos} }

func (c *checker) space() {
	for c.pos < len(c.text) && isSpace(c.text[c.pos]) {
		c.pos++
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\r' || b == '\t' }

// next is the byte at hand, 0 at the end.
func (c *checker) next() byte {
	if c.pos < len(c.text) {
		return c.text[c.pos]
	}
	return 0
}

func (c *checker) value(depth int) error {
	c.space()
	if c.values++; c.values > MaxMessageValues {
		return c.fault(fmt.Sprintf("more than %d values", MaxMessageValues))
	}
	switch b := c.next(); {
	case b == '[':
		return c.list(depth, ']', false)
	case b == '{':
		return c.list(depth, '}', true)
	case b == '"':
		return c.str()
	case b == '-' || '0' <= b && b <= '9':
		return c.number()
	default:
		for _, word := range []string{"null", "true", "false"} {
			if bytes.HasPrefix(c.text[c.pos:], []byte(word)) {
				c.pos += len(word)
				return nil
			}
		}
		return c.fault("malformed JSON")
	}
}

// list checks an array or, with names, an object.
func (c *checker) list(depth int, end byte, names bool) error {
	if depth >= maxNesting {
		return c.fault("nested too deeply")
	}
	c.pos++
	c.space()
	if c.next() == end {
		c.pos++
		return nil
	}
	for {
		if names {
			if c.space(); c.next() != '"' {
				return c.fault("malformed JSON")
			}
			if err := c.str(); err != nil {
				return err
			}
			if c.space(); c.next() != ':' {
				return c.fault("malformed JSON")
			}
			c.pos++
		}
		if err := c.value(depth + 1); err != nil {
			return err
		}
		c.space()
		switch c.next() {
		case ',':
			c.pos++
		case end:
			c.pos++
			return nil
		default:
			return c.fault("malformed JSON")
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainRun is how many bytes from the start of text are certainly plain: no quote, no
// backslash, no control character. It looks at eight at a time and stops early rather
// than late.
func plainRun(text []byte) int {
	n := 0
	for n+8 <= len(text) {
		w := binary.LittleEndian.Uint64(text[n:])
		quote, back := w^(ones*'"'), w^(ones*'\\')
		special := (w - ones*0x20) &^ w
		special |= (quote - ones) &^ quote
		special |= (back - ones) &^ back
		if special&highs != 0 {
			break
		}
		n += 8
	}
	return n
}

func (c *checker) str() error {
	c.pos++
	for {
		c.pos += plainRun(c.text[c.pos:])
		// The group that stopped the run, or the last bytes.
		for range 8 {
			if c.pos >= len(c.text) {
				return c.fault("unterminated string")
			}
			switch b := c.text[c.pos]; {
			case b == '"':
				c.pos++
				return nil
			case b < 0x20:
				return c.fault("control character in a string")
			case b == '\\':
				if err := c.escape(); err != nil {
					return err
				}
			default:
				c.pos++
			}
		}
	}
}

func (c *checker) escape() error {
	c.pos++
	switch c.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.pos++
		return nil
	case 'u':
		if _, ok := hex4(c.text[c.pos+1:]); ok {
			c.pos += 5
			return nil
		}
	}
	return c.fault("malformed escape")
}

func (c *checker) digits() bool {
	start := c.pos
	for b := c.next(); '0' <= b && b <= '9'; b = c.next() {
		c.pos++
	}
	return c.pos > start
}

func (c *checker) number() error {
	if c.next() == '-' {
		c.pos++
	}
	if c.next() == '0' {
		c.pos++
	} else if !c.digits() {
		return c.fault("malformed number")
	}
	if c.next() == '.' {
		if c.pos++; !c.digits() {
			return c.fault("malformed number")
		}
	}
	if b := c.next(); b == 'e' || b == 'E' {
		c.pos++
		if b := c.next(); b == '+' || b == '-' {
			c.pos++
		}
		if !c.digits() {
			return c.fault("malformed number")
		}
	}
	return nil
}

func hex4(text []byte) (rune, bool) {
	if len(text) < 4 {
		return 0, false
	}
	var r rune
	for _, b := range text[:4] {
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	return r, true
}

// quoteFor is a peer's text as errors quote it.
func quoteFor(text []byte) string {
	if len(text) <= maxQuoted {
		return string(bytes.ToValidUTF8(text, []byte("\ufffd")))
	}
	return string(bytes.ToValidUTF8(text[:maxQuoted], nil)) + "…"
}

// integer reports whether n is a whole number that JavaScript counts exactly.
func integer(n float64) (int64, bool) {
	if n != math.Trunc(n) || math.Abs(n) > maxSafeInteger {
		return 0, false
	}
	return int64(n), true
}

// maxSafeInteger is the largest integer up to which JavaScript counts exactly.
const maxSafeInteger = 1<<53 - 1
