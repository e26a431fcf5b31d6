package capnweb

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A cursor reads JSON that check has passed.
type cursor struct {
	text []byte
	pos  int
}

// peek skips space and returns the byte at hand.
func (c *cursor) peek() byte {
	for isSpace(c.text[c.pos]) {
		c.pos++
	}
	return c.text[c.pos]
}

// accept takes b if it comes next.
func (c *cursor) accept(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.pos++
	return true
}

// item moves to the next item of an array, which begins with its first comma. It takes
// the closing bracket and reports false at the end.
func (c *cursor) item() bool {
	if c.accept(']') {
		return false
	}
	c.accept(',')
	return true
}

// str reads a string. The result is part of the text where that has no escapes.
func (c *cursor) str() []byte {
	c.peek()
	c.pos++
	start := c.pos
	end := start + bytes.IndexByte(c.text[start:], '"')
	if i := bytes.IndexByte(c.text[start:end], '\\'); i >= 0 {
		c.pos += i
		return c.escaped(start)
	}
	c.pos = end + 1
	return c.text[start:end]
}

// escaped goes on with a string at its first backslash.
func (c *cursor) escaped(start int) []byte {
	out := append([]byte(nil), c.text[start:c.pos]...)
	for {
		b := c.text[c.pos]
		c.pos++
		switch b {
		case '"':
			return out
		case '\\':
			b = c.text[c.pos]
			c.pos++
			switch b {
			case 'b':
				b = '\b'
			case 'f':
				b = '\f'
			case 'n':
				b = '\n'
			case 'r':
				b = '\r'
			case 't':
				b = '\t'
			case 'u':
				out = utf8.AppendRune(out, c.unicode())
				continue
			}
		}
		out = append(out, b)
	}
}

// unicode reads the digits of an escape, of two for a pair of surrogates. A surrogate
// alone becomes the replacement character.
func (c *cursor) unicode() rune {
	r, _ := hex4(c.text[c.pos:])
	c.pos += 4
	if !utf16.IsSurrogate(r) {
		return r
	}
	if rest := c.text[c.pos:]; rest[0] == '\\' && rest[1] == 'u' {
		if low, ok := hex4(rest[2:]); ok {
			if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
				c.pos += 6
				return full
			}
		}
	}
	return utf8.RuneError
}

// number reads a number as JavaScript would, without end where it is too large.
func (c *cursor) number() float64 {
	c.peek()
	start := c.pos
	whole := true
	for c.pos < len(c.text) {
		switch b := c.text[c.pos]; {
		case '0' <= b && b <= '9', b == '-':
		case b == '.', b == 'e', b == 'E', b == '+':
			whole = false
		default:
			return parseNumber(c.text[start:c.pos], whole)
		}
		c.pos++
	}
	return parseNumber(c.text[start:], whole)
}

func parseNumber(text []byte, whole bool) float64 {
	if whole && len(text) <= 15 && text[0] != '-' { // what a float64 holds exactly
		n := 0
		for _, b := range text {
			n = n*10 + int(b-'0')
		}
		return float64(n)
	}
	n, _ := strconv.ParseFloat(string(text), 64) // ±Inf when out of range
	if n == 0 {
		return 0 // not -0
	}
	return n
}

// skip passes over a value and returns its text.
func (c *cursor) skip() []byte {
	c.peek()
	start := c.pos
	for depth := 0; ; {
		switch c.peek() {
		case '[', '{':
			depth++
			c.pos++
		case ']', '}':
			depth--
			c.pos++
		case '"':
			c.quoted()
		case ',', ':':
			c.pos++
			continue
		default:
			for c.pos < len(c.text) && !isEnd(c.text[c.pos]) {
				c.pos++
			}
		}
		if depth == 0 {
			return c.text[start:c.pos]
		}
	}
}

// quoted passes over a string.
func (c *cursor) quoted() {
	c.pos++
	end := c.pos + bytes.IndexByte(c.text[c.pos:], '"')
	i := bytes.IndexByte(c.text[c.pos:end], '\\')
	if i < 0 {
		c.pos = end + 1
		return
	}
	for c.pos += i; ; c.pos++ {
		switch c.text[c.pos] {
		case '"':
			c.pos++
			return
		case '\\':
			c.pos++
		}
	}
}

func isEnd(b byte) bool { return isSpace(b) || b == ',' || b == ']' || b == '}' || b == ':' }
