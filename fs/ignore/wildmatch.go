package ignore

import "strings"

// A wild is a pattern whose bytes mean what they mean to git's wildmatch: a star and a question
// mark match no slash, two stars between slashes match any number of directories.
type wild []token

// A token matches a byte, or with a star none or more of them.
type token struct {
	kind kind
	char byte
	set  *[256]bool
}

type kind uint8

const (
	char  kind = iota
	set        // one of some bytes
	any        // a byte but a slash
	star       // bytes without a slash
	stars      // any bytes
	dirs       // directories, with the slashes behind them
	never      // nothing: the pattern is malformed
)

// compile reads a pattern, or its end behind a plain text.
func compile(pattern string) wild {
	var w wild
	for p := 0; p < len(pattern); p++ {
		c := pattern[p]
		switch c {
		case '*':
			first := p
			for at(pattern, p+1) == '*' {
				p++
			}
			rest := pattern[p+1:]
			switch {
			case p == first || first > 0 && pattern[first-1] != '/':
				w = append(w, token{kind: star})
			case strings.HasPrefix(rest, "/"):
				w = append(w, token{kind: dirs})
				p++
			case rest == "" || strings.HasPrefix(rest, `\/`):
				w = append(w, token{kind: stars})
			default:
				w = append(w, token{kind: star})
			}
		case '?':
			w = append(w, token{kind: any})
		case '[':
			end, bytes := readSet(pattern, p+1)
			if end < 0 {
				return append(w, token{kind: never})
			}
			bytes['/'] = false
			w = append(w, token{kind: set, set: bytes})
			p = end
		case '\\':
			if p++; p == len(pattern) {
				return append(w, token{kind: never})
			}
			c = pattern[p]
			fallthrough
		default:
			w = append(w, token{kind: char, char: c})
		}
	}
	return w
}

// at is a byte, 0 behind the end.
func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

// match reports whether a text matches as a whole. It takes time in proportion to the product
// of both lengths at most.
func (w wild) match(text string) bool {
	s := states{w: w, since: make([]int, len(w)+1)}
	s.reach(0)
	for i := 0; i < len(text) && len(s.next) > 0; i++ {
		s.now, s.next = s.next, s.now[:0]
		s.step++
		for _, n := range s.now {
			if n < len(w) {
				s.take(n, text[i])
			}
		}
	}
	return s.since[len(w)] == s.step+1
}

// states are the tokens that may come next while a text is read, len(w) for the end.
type states struct {
	w         wild
	now, next []int
	step      int
	since     []int // the step in which a token was last added, from 1
}

// take has a token match a byte.
func (s *states) take(n int, c byte) {
	switch t := &s.w[n]; t.kind {
	case char:
		if t.char == c {
			s.reach(n + 1)
		}
	case set:
		if t.set[c] {
			s.reach(n + 1)
		}
	case any:
		if c != '/' {
			s.reach(n + 1)
		}
	case star:
		if c != '/' {
			s.reach(n)
		}
	case stars:
		s.reach(n)
	case dirs:
		s.add(n)
		if c == '/' {
			s.reach(n + 1)
		}
	case never:
	}
}

// add adds a token to those that may come next, and reports whether it is new.
func (s *states) add(n int) bool {
	if s.since[n] == s.step+1 {
		return false
	}
	s.since[n] = s.step + 1
	s.next = append(s.next, n)
	return true
}

// reach adds a token, and those behind it if it may match nothing.
func (s *states) reach(n int) {
	for s.add(n) && n < len(s.w) {
		switch s.w[n].kind {
		case star, stars, dirs:
			n++
		case char, set, any, never:
			return
		}
	}
}

// readSet reads the set whose text begins at p. It returns the position of the bracket that
// ends it, -1 when the set is malformed.
func readSet(pattern string, p int) (end int, in *[256]bool) {
	in = new([256]bool)
	add := func(from, to byte) {
		for c := int(from); c <= int(to); c++ {
			in[c] = true
		}
	}
	negated := at(pattern, p) == '!' || at(pattern, p) == '^'
	if negated {
		p++
	}
	var before byte // the byte that a range may begin with, 0 for none
	for first := true; first || at(pattern, p) != ']'; first = false {
		if p >= len(pattern) {
			return -1, nil
		}
		b := pattern[p]
		switch {
		case b == '\\':
			p++
			if b = at(pattern, p); p >= len(pattern) {
				return -1, nil
			}
			add(b, b)
		case b == '-' && before != 0 && p+1 < len(pattern) && pattern[p+1] != ']':
			if p++; pattern[p] == '\\' {
				p++
			}
			if p >= len(pattern) {
				return -1, nil
			}
			add(before, pattern[p])
			b = 0
		case b == '[' && at(pattern, p+1) == ':':
			n := strings.IndexByte(pattern[p+2:], ']')
			if n < 0 {
				return -1, nil
			}
			name, isClass := strings.CutSuffix(pattern[p+2:p+2+n], ":")
			if !isClass {
				add('[', '[')
				break
			}
			class, known := classes[name]
			if !known {
				return -1, nil
			}
			for c := range in {
				in[c] = in[c] || class(byte(c))
			}
			p, b = p+2+n, 0
		default:
			add(b, b)
		}
		before = b
		p++
	}
	if negated {
		for c := range in {
			in[c] = !in[c]
		}
	}
	return p, in
}

// classes are the named sets, of ASCII.
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' },
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
